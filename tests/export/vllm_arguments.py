"""Run as a program: parse servers' command lines with vLLM's own parsers and print what they understood, as JSON.

A command line that begins with ``serve`` is one of the program ``vllm``, any other one of its API server's module.
"""

import json
import sys

WANTED = (
    "model",
    "model_tag",
    "port",
    "revision",
    "tokenizer_revision",
    "dtype",
    "max_model_len",
    "quantization",
    "kv_cache_dtype",
    "tensor_parallel_size",
    "async_scheduling",
    "enforce_eager",
    "speculative_config",
    "additional_config",
    "worker_extension_cls",
    "fingerprint_mode",
    "fingerprint_value",
)


def main() -> None:
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    module = make_arg_parser(FlexibleArgumentParser())
    program = FlexibleArgumentParser()
    ServeSubcommand().subparser_init(program.add_subparsers(required=True, dest="subparser"))
    results = []
    for arguments in json.loads(sys.stdin.read()):
        try:
            found = (program if arguments[0] == "serve" else module).parse_args(arguments)
        except SystemExit as stop:
            results.append({"exit": stop.code})
        else:
            results.append({name: getattr(found, name) for name in WANTED})
    print(json.dumps(results, default=str))


if __name__ == "__main__":
    main()
