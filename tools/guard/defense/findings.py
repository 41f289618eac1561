"""What the gateway told a person about an input: entries of the audit log and warnings on standard error.

Only what somebody would come across counts: a warning that the program prints, or an entry of the log with a finding or a
refusal. What is stored beside a definition and shown on request does not count.
"""

import json
import re
import subprocess

# Lines of the log of the program. `suspicious` is how it begins what it says about a definition or a result.
PRINTED = re.compile(r"\bWARN\b.*\b(suspicious|finding)\b")
WARNING = re.compile(r"\bWARN\b.*\b(suspicious|finding)\b|^finding:")


def of_entry(entry: dict) -> list[str]:
    found = []
    for key in ("finding", "findings", "notice", "notices", "lints"):
        value = entry.get(key)
        if value:
            found.append(f"{entry.get('kind')} {entry.get('subject', '')}: {key} {json.dumps(value)[:160]}")
    return found


def entries(program: str, environment: dict) -> list[dict]:
    run = subprocess.run(
        [program, "audit", "search", "--json", "--each", "--limit", "1000"],
        env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20,
    )
    try:
        return [item["entry"] for item in json.loads(run.stdout)]
    except (ValueError, KeyError, TypeError):
        return []


def recorded(program: str, environment: dict) -> list[str]:
    return [finding for entry in entries(program, environment) for finding in of_entry(entry)]


def printed(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if PRINTED.search(line)]
