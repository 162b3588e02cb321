"""Help of commands: examples, and placeholders for values in place of types of Python."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# Two commands that run as written, after a data set or a table of the user.
EXAMPLES = {
    "": ("fairspan explore loans", "fairspan fit people.csv --target repaid --protected sex,age"),
    "explore": (
        "fairspan explore loans",
        "fairspan explore people.csv --target repaid --protected sex --save-model fair.skops",
        "fairspan explore people.csv --target repaid --protected sex --compare a.skops --compare b.skops",
    ),
    "fit": (
        "fairspan fit loans --audit",
        "fairspan fit people.csv --target repaid --protected sex --max-gap 0.05 --out fair.skops",
    ),
    "predict": (
        "fairspan predict loans --model fair.skops --out predictions.csv",
        "fairspan predict people.csv --model fair.skops --fairness 0.5 --json predictions.json",
    ),
    "export": (
        "fairspan export fair.skops model.onnx --check people.csv",
        "fairspan export fair.skops model.npz --fairness 0.5 --reader",
    ),
    "audit": (
        "fairspan audit people.csv --model fair.skops --target repaid --protected sex",
        "fairspan audit people.csv --scores score --target repaid --protected sex --markdown card.md",
    ),
    "monitor": (
        "fairspan monitor state.json --new monday.csv --decisions approved --protected sex --limit gap=0.1",
        "fairspan monitor state.json --reset 'new model' --plot monitor.png",
    ),
    "prepare": (
        "fairspan prepare agreement.json --out pilot.npz",
        "fairspan prepare agreement.json",
    ),
    "moments": (
        "fairspan moments people.csv --pilot pilot.npz --site north --out north.npz",
        "fairspan moments people.csv --pilot pilot.npz --site north --out north.npz --fixed-point",
    ),
    "merge": (
        "fairspan merge north.npz south.npz --pilot pilot.npz --out fair.skops",
        "fairspan merge north.npz south.npz --pilot pilot.npz --fairness 0.5 --json merged.json",
    ),
    "data list": ("fairspan data list", "fairspan data list --json sets.json"),
    "data fetch": ("fairspan data fetch loans", "fairspan data fetch adult --data-home data"),
    "reproduce": ("fairspan reproduce --quick", "fairspan reproduce figure1 --splits 5"),
    "bench frontier": (
        "fairspan bench frontier --quick",
        "fairspan bench frontier --data adult --criteria sp --splits 5",
    ),
}
# Words in the name or in the description of a type, and the placeholder of its values.
_PLACEHOLDERS = {"bool": "", "int": "NUMBER", "float": "NUMBER", "path": "FILE"}


def placeholder(parameter: Any) -> str:
    """Placeholder for the value of an option: TEXT, NUMBER, FILE, or nothing for a switch."""
    # Typer stores the type differently by version.
    descriptor = getattr(parameter, "type_descriptor", None)
    name = parameter.type.name if descriptor is None else str(descriptor.annotation)
    words = (word for kind, word in _PLACEHOLDERS.items() if kind in name.lower())
    return "" if getattr(parameter, "is_flag", False) else next(words, "TEXT")


def _name_values(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if parameter.metavar is None:
            if parameter.param_type_name == "argument":
                parameter.metavar = parameter.name.upper()
                parameter.display_type_rich = lambda ctx: ""  # noqa: ARG005 - its type beside its name
            else:
                parameter.metavar = placeholder(parameter)
    return parameters


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _name_values(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _name_values(super().get_params(ctx))


def add_help(app: typer.Typer, name: str = "") -> None:
    """Give all commands of an application their examples and placeholders."""
    app.info.cls = _Group
    if name == "":
        app.info.epilog = _epilog(name)
    for command in app.registered_commands:
        command.cls = _Command
        full = f"{name} {command.name}".strip()
        if full in EXAMPLES:
            command.epilog = _epilog(full)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_help(group.typer_instance, f"{name} {group.name}".strip())


def _epilog(name: str) -> str:
    """Examples as paragraphs, because line breaks within a paragraph are lost."""
    return "\n\n".join(["Examples:", *EXAMPLES[name]])
