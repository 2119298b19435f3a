"""What does the work: the command line, the run of a study, its workers, engines and the verifier inside vLLM.

Imports dashboards, storage and studies; none of them imports this package.
"""
