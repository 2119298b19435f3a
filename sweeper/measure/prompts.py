"""Put a problem to a chat model: worked examples as turns of their own, and how the answer is to end.

Knows nothing of chat templates; the engine renders messages into its model's text.
"""

from collections.abc import Sequence

from studies.slices import Problem

ZERO_SHOT = (
    "Solve the problem. Show the calculation in a few short lines, "
    "then end with a line that holds only #### and the number."
)
FEW_SHOT = "Solve the problem. Show the calculation, then end with a line: #### and the number."


def chat_messages(problem: Problem, exemplars: Sequence[Problem]) -> list[dict[str, str]]:
    """Messages ({"role", "content"}) for one problem: user and assistant turns for each exemplar, then the question.

    The instruction opens the first user turn (and, without exemplars, the only one).
    Raises ValueError for an exemplar without a worked solution.
    """
    messages: list[dict[str, str]] = []
    for exemplar in exemplars:
        if not exemplar.solution:
            raise ValueError(f"problem {exemplar.problem_id} has no worked solution and cannot be an exemplar")
        messages.append({"role": "user", "content": exemplar.question})
        messages.append({"role": "assistant", "content": exemplar.solution})
    messages.append({"role": "user", "content": problem.question})
    instruction = FEW_SHOT if exemplars else ZERO_SHOT
    messages[0]["content"] = f"{instruction}\n\n{messages[0]['content']}"
    return messages
