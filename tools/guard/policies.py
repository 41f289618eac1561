"""The policies of the benchmark, written from the label files in `policies/labels`.

| name | policy file |
|---|---|
| `none` | none |
| `as-was` | every call allowed, data flow watched, with the labels `private`, `untrusted`, `outbound` |
| `every-effect` | each tool with an effect is asked about |
| `cautious`, `balanced`, `open` | the preset with all labels |
| `cautious-unlabelled`, … | the preset alone, as a new user has it |
"""
import json
import os
import tomllib

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "policies")
PRESETS = ("cautious", "balanced", "open")
UNLABELLED = "-unlabelled"
# Nothing that a person decides changes later decisions.
WITHOUT_MEMORY = ("none", "as-was", "every-effect")
POLICIES = (*WITHOUT_MEMORY, *PRESETS, *(preset + UNLABELLED for preset in PRESETS))


class Labels:
    """Labels of the tools of one set."""

    def __init__(self, own, rows, text):
        self.own, self.rows, self.text = own, rows, text
        self.effects = tools_of(filter(has_effect, rows))
        self.changes = tools_of(filter(changes_something, rows))

    @classmethod
    def of_file(cls, suite):
        """Reads the label file of a suite, which is a policy file without a preset."""
        with open(os.path.join(FOLDER, "labels", f"{suite}.toml"), encoding="utf-8") as file:
            text = file.read()
        parsed = tomllib.loads(text)
        return cls(parsed.get("own", []), parsed["label"], text)

    @classmethod
    def of_rows(cls, own, rows):
        return cls(own, rows, "\n".join([f"own = {json.dumps(own)}\n", *(table("label", row) for row in rows)]))

    def is_effect(self, server, tool):
        """Returns true if the tool changes something or lets somebody else see its arguments."""
        return (None, tool) in self.effects or (server, tool) in self.effects

    def is_change(self, server, tool):
        """Returns true if the tool changes something. A read that lets somebody else see its arguments does not."""
        return (None, tool) in self.changes or (server, tool) in self.changes


def tools_of(rows):
    return {(row.get("server"), tool) for row in rows for tool in as_list(row["tool"])}


def has_effect(row):
    return row.get("outbound", False) or changes_something(row)


def changes_something(row):
    return row.get("effect", "none") != "none"


def as_list(value):
    return value if isinstance(value, list) else [value]


def policy_text(name, labels, plans=False):
    """Returns the text of a policy file, or None for no policy at all. With `plans`, a preset allows plans."""
    if name == "none":
        return None
    if name == "as-was":
        keys = ("server", "tool", "private", "untrusted", "outbound")
        rows = [{key: row[key] for key in keys if key in row} for row in labels.rows]
        return "\n".join(["[[rule]]", 'decide = "allow"', *(table("label", row) for row in rows)])
    if name == "every-effect":
        rules = [
            {"decide": "ask"} | {key: row[key] for key in ("server", "tool") if key in row}
            for row in labels.rows
            if has_effect(row)
        ]
        return "\n".join(['data_flow = "off"', *(table("rule", rule) for rule in [*rules, {"decide": "allow"}])])
    key = "plans = true\n" if plans else ""
    if name.endswith(UNLABELLED):
        return f'preset = "{name.removesuffix(UNLABELLED)}"\n{key}'
    return f'preset = "{name}"\n{key}{labels.text}'


def table(name, row):
    # JSON's texts, booleans and lists of texts are TOML's, too.
    return "\n".join([f"[[{name}]]", *(f"{key} = {json.dumps(value)}" for key, value in row.items()), ""])
