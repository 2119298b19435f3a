"""Is the verifier's GPU path right on this GPU, and what does it cost beyond an argmax?

    python benchmarks/gpu_check.py            # under five minutes; text
    python benchmarks/gpu_check.py --json     # the same as one JSON document

Needs a CUDA device, torch and triton, no weights and no other package. First random blocks (batch 1 to 256, K 1 to 16,
vocabulary 32k to 152k, float32 and bfloat16, ties, masked and NaN logits planted) through the fused and the plain
functions; any difference is printed and the exit code is 1. Then times, each beside ``argmax`` over the same rows,
which strict verification needs anyway. Without a GPU it says so and exits with 2; ``--interpret`` runs a tiny part of
the comparison under Triton's interpreter instead, and times nothing.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

BATCHES, DRAFT_LENGTHS, VOCABULARIES = (1, 3, 16, 64, 256), (1, 4, 7, 16), (32000, 50257, 128256, 151936)
TIMED = ((1, 7), (8, 7), (32, 7), (64, 7), (256, 7), (32, 16), (256, 16))  # (batch, K)
TIMED_VOCABULARIES = (32000, 151936)
REPEATS = 40
CHECK_SECONDS, TOTAL_SECONDS = 120.0, 240.0
FLUSH_BYTES = 256 * 2**20  # more than any L2 cache
SLEEP_CYCLES = 2_000_000  # about a millisecond: the host queues a whole measurement meanwhile


@dataclass(frozen=True)
class Timing:
    """Microseconds of one way over one shape: median, 10th and 90th percentile; host: until all of it is queued.

    beyond_us: median of the difference to the argmax measured just before; ratio: of the medians.
    """

    way: str
    median_us: float
    low_us: float
    high_us: float
    beyond_us: float
    ratio: float
    host_us: float


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    parser.add_argument("--interpret", action="store_true", help="a tiny comparison on the CPU, under the interpreter")
    options = parser.parse_args(arguments)
    if options.interpret:
        os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported
    try:
        import torch
        import triton  # noqa: F401  # only whether it is there; the kernels import it themselves
    except ImportError as error:
        print(f"gpu_check needs torch and triton, and {error.name} is not installed", file=sys.stderr)
        return 2
    if not options.interpret and not torch.cuda.is_available():
        print("gpu_check needs a CUDA device, and torch finds none here; --interpret checks a little on the CPU")
        return 2
    report = interpreted_report() if options.interpret else gpu_report()
    print(json.dumps(report, indent=1) if options.json else as_text(report))
    return 1 if report["differences"] else 0


def interpreted_report() -> dict[str, Any]:
    """The comparison of a few small shapes under the interpreter."""
    import functools

    import torch
    from gpu_cases import Shape, differences

    from sweeper.verifier.kernel import gather_rows_fused, select_rows_fused

    # one part a row, several rows a program; then many parts a row, one row a program
    plans = [
        (64, [Shape(b, k, 97, t) for b, k in ((1, 1), (5, 16), (40, 7)) for t in (torch.float32, torch.bfloat16)]),
        (1, [Shape(1, 3, 9001, torch.float32), Shape(2, 1, 32000, torch.float16)]),
    ]
    device = torch.device("cpu")
    started = time.perf_counter()
    blocks, found = 0, []
    for rows_per_program, shapes in plans:
        gather = functools.partial(gather_rows_fused, rows_per_program=rows_per_program)
        select = functools.partial(select_rows_fused, rows_per_program=rows_per_program)
        for shape in shapes:
            count, wrong = differences(shape, gather, select, device=device, rounds=1)
            blocks += count
            found += wrong
    return {
        "device": "Triton's interpreter on the CPU",
        "torch": torch.__version__,
        "shapes": sum(len(shapes) for _, shapes in plans),
        "shapes_left_out": [],
        "blocks": blocks,
        "check_seconds": time.perf_counter() - started,
        "differences": found,
        "timings": [],
    }


def gpu_report() -> dict[str, Any]:
    """The comparison and the times on the first CUDA device."""
    import torch
    import triton
    from gpu_cases import Shape, differences

    from sweeper.verifier.kernel import gather, select, triton_kernels

    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    started = time.perf_counter()
    shapes = [
        Shape(batch, draft_length, vocabulary, dtype)
        for vocabulary in VOCABULARIES
        for draft_length in DRAFT_LENGTHS
        for batch in BATCHES
        for dtype in (torch.bfloat16, torch.float32)
    ]
    shapes += [Shape(16, 7, 151936, torch.float16), Shape(40, 5, 4097, torch.bfloat16), Shape(9, 16, 97, torch.float32)]
    blocks, checked, found = 0, 0, []
    if triton_kernels() is None:  # the plain functions would be compared with themselves
        found.append("the fused path is not used: its kernels cannot be imported")
    left_out: list[str] = []
    for shape in shapes:
        # the plain functions and the planting need the matrix several times over, as float32
        needed = 5 * shape.batch * shape.draft_length * shape.vocabulary * 4
        if needed > torch.cuda.mem_get_info(device)[0]:
            left_out.append(f"{shape}: not enough memory")
        elif time.perf_counter() - started > CHECK_SECONDS:
            left_out.append(f"{shape}: out of time")
        else:
            count, wrong = differences(shape, gather, select, device=device)
            blocks, checked = blocks + count, checked + 1
            found += wrong
            torch.cuda.empty_cache()
    found += synchronisations(device)
    check_seconds = time.perf_counter() - started
    timings = []
    for vocabulary in TIMED_VOCABULARIES:
        for dtype in (torch.bfloat16, torch.float32):
            for batch, draft_length in TIMED:
                shape = Shape(batch, draft_length, vocabulary, dtype)
                if time.perf_counter() - started > TOTAL_SECONDS:
                    left_out.append(f"times of {shape}: out of time")
                else:
                    timings.append({"shape": str(shape), "ways": [vars(t) for t in time_shape(shape, device)]})
    return {
        "device": torch.cuda.get_device_name(device),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "shapes": checked,
        "shapes_left_out": left_out,
        "blocks": blocks,
        "check_seconds": check_seconds,
        "differences": found,
        "timings": timings,
    }


def verifier_ways(shape: Any, device: Any) -> dict[str, Callable[[], Any]]:
    """What is timed, by name; every way reads the same logits."""
    import torch
    from gpu_cases import block_inputs, planted_rows, random_controls

    from sweeper.verifier.kernel import gather, select
    from sweeper.verifier.rules import gather_rows, select_prefix

    rows = planted_rows(shape, device=device, seed=1)
    controls = random_controls(shape, device=device, seed=1)
    controls["spent"] = torch.zeros(shape.batch, dtype=torch.float64, device=device)

    def whole(gathering: Any, selecting: Any) -> Any:
        gathered = gathering(rows.logits, rows.draft_ids)
        return selecting(**block_inputs(shape, rows, gathered), **controls)

    return {
        "argmax": lambda: rows.logits.argmax(dim=-1),
        "fused gather": lambda: gather(rows.logits, rows.draft_ids),
        "fused": lambda: whole(gather, select),
        "plain": lambda: whole(gather_rows, select_prefix),
    }


def synchronisations(device: Any) -> list[str]:
    """Whether the fused path reads anything back to the host; torch raises where it does."""
    import torch
    from gpu_cases import Shape

    fused = verifier_ways(Shape(4, 7, 32000, torch.bfloat16), device)["fused"]
    fused()
    torch.cuda.synchronize(device)
    torch.cuda.set_sync_debug_mode("error")
    try:
        fused()
    except RuntimeError as error:
        return [f"the fused path waits for the GPU: {str(error).splitlines()[0]}"]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return []


def time_shape(shape: Any, device: Any) -> list[Timing]:
    """All ways in turn, REPEATS times, the cache flushed before each; GPU time by events, host time by a clock."""
    import torch

    ways = verifier_ways(shape, device)
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=device)
    gpu_us: dict[str, list[float]] = {name: [] for name in ways}
    host_us: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(REPEATS + 3):
        for name, way in ways.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.zero_()
            torch.cuda._sleep(SLEEP_CYCLES)  # torch has no public way to keep the GPU busy until all is queued
            begin.record()
            queued = time.perf_counter()
            way()
            queued = time.perf_counter() - queued
            end.record()
            torch.cuda.synchronize(device)
            if repeat >= 3:  # the first ones compile and warm up
                gpu_us[name].append(begin.elapsed_time(end) * 1000)
                host_us[name].append(queued * 1e6)
    argmax = gpu_us["argmax"]
    return [
        Timing(
            way=name,
            median_us=statistics.median(values),
            low_us=statistics.quantiles(values, n=10)[0],
            high_us=statistics.quantiles(values, n=10)[-1],
            beyond_us=statistics.median(ours - its for ours, its in zip(values, argmax, strict=True)),
            ratio=statistics.median(values) / statistics.median(argmax),
            host_us=statistics.median(host_us[name]),
        )
        for name, values in gpu_us.items()
    ]


def as_text(report: dict[str, Any]) -> str:
    lines = [
        f"device: {report['device']}",
        f"compared: {report['blocks']} blocks of {report['shapes']} shapes in {report['check_seconds']:.0f} s, "
        f"{len(report['differences'])} differences",
        *(f"  different: {line}" for line in report["differences"]),
        *(f"  left out: {line}" for line in report["shapes_left_out"]),
    ]
    if report["timings"]:
        lines += [
            "",
            f"GPU time in microseconds, median of {REPEATS} [10th..90th percentile], beyond argmax, ratio to argmax;",
            "host: microseconds until the work is queued; logits out of the cache",
        ]
    for timing in report["timings"]:
        lines.append(timing["shape"])
        for way in timing["ways"]:
            spread = f"[{way['low_us']:.1f}..{way['high_us']:.1f}]"
            lines.append(
                f"  {way['way']:<13}{way['median_us']:>9.1f} {spread:<20}{way['beyond_us']:>+9.1f}"
                f"{way['ratio']:>8.2f} x   host {way['host_us']:>7.1f}"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
