"""Where problems come from: GSM8K-format files, the hub, the built-in generator, and the rows of the other tasks.

``source.load_problems`` gives a study's problems, the same frozen ``Problem`` values whatever the source;
``registry.read_task`` gives a task's rows, each with its prompt and what its answers are graded by.
"""
