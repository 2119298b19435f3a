"""Write a verified artifact in the forms that serving stacks read: vLLM, Kubernetes, Prometheus and others.

Every export starts from a verified artifact; nothing here writes a key or a policy. Reading order: ``targets``, then
``vllm``, which the other serving targets build on, then ``folder``, which writes.
"""
