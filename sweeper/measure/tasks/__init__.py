"""Where problems come from: GSM8K-format files, the hub, or the built-in generator.

``source.load_problems`` is the way in; every source gives the same frozen ``Problem`` values.
"""
