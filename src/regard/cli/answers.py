"""regard answers: claims about attention models, each with a verdict, the reason and the proof."""

from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.options import AsJson
from regard.cli.screen import in_colour, print_drawing, print_json, print_result, report
from regard.cli.shell import as_called, language
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.files import JsonObject
    from regard.lab.claim import Claim

MAX_COLUMNS = 100

Wanted = Annotated[
    list[str] | None,
    typer.Argument(metavar="WORD", help="Print only claims that contain every WORD; without WORD, all."),
]
Order = Annotated[
    Literal["topic", "notes"],
    typer.Option("--order", metavar="topic|notes", help="Order of the claims: by topic, or as in the study notes."),
]
Only = Annotated[
    Literal["right", "half", "wrong", "open"] | None,
    typer.Option(
        "--only", metavar="right|half|wrong|open", help="Print only claims with this verdict; half: half right."
    ),
]


def answers(words: Wanted = None, order: Order = "topic", only: Only = None, as_json: AsJson = False) -> None:
    """Print claims that students learn: right or wrong, why, and the proof."""
    from regard.lab.claim import all_claims, find_claims, in_notes_order

    chosen = find_claims(all_claims(), words or [], "half right" if only == "half" else only)
    if not chosen:
        problem = f"no claim contains {' and '.join(words or [])}" if words else f"no claim is {only}"
        raise UserError(problem, "leave a word out, or list all: `regard answers`", code="not-found", where="WORD")
    if order == "notes":
        chosen = in_notes_order(chosen)
    if as_json:
        print_json([claim_values(claim) for claim in chosen])
    else:
        print_claims(chosen, by_topic=order == "topic")


def claim_values(claim: "Claim") -> "JsonObject":
    """A claim as JSON values, in both languages."""
    from dataclasses import asdict

    texts = {
        part: text and text._asdict() for part in ("claim", "reason", "question") for text in [getattr(claim, part)]
    }
    return {**asdict(claim), **texts, "notes": claim.places}


def print_claims(claims: "list[Claim]", by_topic: bool) -> None:
    """Claims in the terminal's language, below their topic or with their places, and how many have which verdict."""
    from regard.lab.claim import claim_counts
    from regard.lab.texts import words
    from regard.viz.panel import Screen

    spoken, screen, topic = language(), Screen(in_colour()), ""
    known = words(spoken)
    for claim in claims:
        if by_topic and claim.topic != topic:
            topic = claim.topic
            print_drawing(screen.bold(f"{known['topics'][topic]}\n"))
        if not by_topic:
            print_result(claim.notes)
        if claim.question:
            print_result(claim.question.to(spoken))
        verdict = known["claim_verdicts"][claim.verdict]
        print_drawing(screen.bold(paragraph(verdict + known["colon"] + claim.claim.to(spoken), screen.columns)))
        print_result(paragraph(claim.reason.to(spoken), screen.columns))
        command = as_called(f"regard lab {claim.experiment}") if claim.experiment else ""
        proofs = [proof for proof in (command, claim.test, claim.reference) if proof]
        print_result(f"{known['proof']}{known['colon']}{'; '.join(proofs)}\n")
    report(claim_counts(claims, spoken))


def paragraph(text: str, columns: int) -> str:
    """Text wrapped between words; a terminal wraps Chinese itself."""
    return text if language() == "zh" else fill(text, min(columns, MAX_COLUMNS), break_on_hyphens=False)
