"""The interfaces that the variables *_SOCKET_IFNAME leave to a library."""

from __future__ import annotations

import re

from ranktable.schema.text import quoted


def lost_interfaces(name: str, text: str, there: list[str]) -> str:
    """Return what is wrong with the interfaces in a variable, empty if nothing is."""
    if name.startswith(("GLOO", "TP")):  # they open every interface of the list
        if re.search(r"[\^=]", text):
            return "gloo takes plain names only"
        lost = [word for word in text.split(",") if word and word not in there]
    else:  # the others look for the first that fits
        taken = interfaces_of(name, text, there)
        if text.startswith("^"):
            return "" if taken else "it leaves no interface of this host"
        lost = [] if taken else [w for w in text.lstrip("=").split(",") if w]
    names = " or ".join(quoted(word) for word in lost)
    has = ", ".join(there[:8])
    return f"this host has no interface {names}; it has {has}" if lost else ""


def interfaces_of(name: str, text: str, there: list[str]) -> list[str]:
    """Return the interfaces that a variable leaves, the one that is taken first."""
    if name.startswith(("GLOO", "TP")):
        return [word for word in text.split(",") if word in there]
    words = [word for word in text.lstrip("^=").split(",") if word]
    if name.startswith("NCCL"):  # it reads NAME:PORT, and has no port to compare
        words = [word.partition(":")[0] for word in words]
    mode = text[: len(text) - len(text.lstrip("^="))]
    fits = str.__eq__ if "=" in mode else str.startswith
    named = [each for each in there if any(fits(each, word) for word in words)]
    return [each for each in there if each not in named] if "^" in mode else named


def takes_loopback(name: str, text: str, there: list[str]) -> bool:
    """Whether a library would tell other hosts the address of the loopback interface.

    NCCL leaves out lo only if the variable is unset; else it takes the first interface
    that fits, and lo is the first of a host: aws/deep-learning-containers#4756.
    """
    if name == "NCCL_SOCKET_IFNAME":
        return "lo" in interfaces_of(name, text, there)
    return text.lstrip("=") == "lo"
