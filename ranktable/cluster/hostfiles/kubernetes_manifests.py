"""Kubernetes objects in a file: find them by kind, read and write their fields.

Every field is found by its path, and each defect is reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.host_lists import MAX_HOSTS
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.hostfile import (
    Host,
    Hostfile,
    LauncherFormat,
    even_size,
    refuse_interleaved,
    script_words,
)
from ranktable.cluster.hostfiles.torchrun import SIZES_OF_THE_HOST
from ranktable.cluster.source_text import MAX_SLOTS
from ranktable.schema.diagnostic import Finding, quoted
from ranktable.schema.document import Document
from ranktable.schema.json_parser import parse
from ranktable.schema.rules.syntax import TOO_MANY
from ranktable.schema.yaml_parser import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ranktable.cluster.hostfiles.hostfile import WriterOptions
    from ranktable.cluster.source_text import SourceText
    from ranktable.schema.document import Path, SourceSpan

# YAML's flow style also begins with a brace, but its keys have no quotation marks.
_JSON = re.compile(r"\s*\{\s*(?:\"|\}\s*\Z)")
_NO_NUMBER = "write a whole number, without quotation marks"


@dataclass(frozen=True, slots=True)
class Fields:
    """One document of a file, and the text of the file."""

    source: SourceText
    document: Document

    @property
    def data(self) -> object:
        """The plain data."""
        return self.document.data

    def span_of(self, *path: str | int, of_key: bool = False) -> SourceSpan:
        """Return the place of a value, or of its key."""
        return self.document.span_of(*path, of_key=of_key)

    def get(self, *path: str | int) -> object:
        """Return a value, None if there is none."""
        return self.document.get(*path)

    def report(self, message: str, *path: str | int, hint: str | None = None) -> None:
        """Report a missing or wrong field."""
        self.source.report(rules.WRONG_FIELD, self.span_of(*path), message, hint=hint)

    def integer(
        self, *path: str | int, least: int = 0, default: int | None = None
    ) -> int | None:
        """Return an integer, or the default if the field is absent."""
        value = self.get(*path)
        name = dotted(path)
        if value is None:
            if default is None:
                self.report(f"{name} is missing", *path)
            return default
        if type(value) is not int:
            message = f"{name} is {quoted(value)}, not a number"
            self.report(message, *path, hint=_NO_NUMBER)
            return None
        if value < least:
            self.report(f"{name} is {value}; it is at least {least}", *path)
            return None
        return value

    def text(self, *path: str | int, default: str | None = None) -> str | None:
        """Return a text, or the default if the field is absent."""
        value = self.get(*path)
        if value is None:
            if default is None:
                self.report(f"{dotted(path)} is missing", *path)
            return default
        if not isinstance(value, str):
            self.report(f"{dotted(path)} is {quoted(value)}, not text", *path)
            return None
        return value

    def fixed(self, wanted: object, *path: str | int, why: str) -> None:
        """Report a field that does not have the required value."""
        value = self.get(*path)
        if value != wanted or type(value) is not type(wanted):
            found = "missing" if value is None else quoted(value)
            hint = f"write {path[-1]}: {wanted}"
            self.report(f"{dotted(path)} is {found}; {why}", *path, hint=hint)


def dotted(path: Path) -> str:
    """Return a path with dots: ``spec.template.spec.subdomain``."""
    return ".".join(str(step) for step in path)


def documents_in(source: SourceText) -> list[Fields]:
    """Return the documents of a YAML or JSON text that are mappings."""
    found: list[Fields] = []
    if _JSON.match(source.text):
        parsed = parse(source.text, source.found.limit)
        if isinstance(parsed, Finding):
            source.found.add(parsed)
            return []
        source.found.extend(parsed[1])
        found = [Fields(source, Document(text=source.text, data=parsed[0]))]
    else:
        documents, findings = parse_yaml(source.text, source.found.limit)
        source.found.extend(findings)
        found = [Fields(source, document) for document in documents]
    if not source.is_sound:
        return []
    found = [fields for fields in found if fields.data is not None]
    for fields in found:
        if not isinstance(fields.data, dict):
            fields.report("the document is not a mapping of names to values")
    return [fields for fields in found if isinstance(fields.data, dict)]


def dump_yaml(*documents: object) -> str:
    """Return documents as YAML, with the keys in the given order."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes repeated values in full, because aliases are hard to read and edit."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    text: str = yaml.dump_all(
        documents,
        Dumper=Dumper,
        sort_keys=False,
        default_flow_style=False,
        width=10_000,  # long lines are not folded, with any version of the library
    )
    return text


def manifest(
    version: str, kind: str, name: str, spec: Mapping[str, object]
) -> dict[str, object]:
    """Return an object of Kubernetes."""
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


MANIFEST_OPTIONS = ("name", "image", "resource", "script", "port")
DEFAULT_NAME = "train"
_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_MAX_LABEL = 63
_IMAGE = re.compile(r"[A-Za-z0-9][!-~]*")
_DOMAIN = re.compile(
    r"(?=.{1,244}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
)
_RESOURCE = re.compile(r"(?=.{1,63}\Z)[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
# The longest ending of a pod's name is JobSet's: -node-0-1048575.
_MAX_NAME = _MAX_LABEL - len("-node-0-1048575")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job that is written as manifests; every pod has the same template.

    Attributes:
        name: Its name.
        num_pods: Number of pods, one for each node.
        size: Number of processes of a pod.
        options: Port, script, image and resource.
    """

    name: str
    num_pods: int
    size: int
    options: WriterOptions

    @property
    def script(self) -> list[str]:
        """The script and its arguments."""
        return script_words(self.options.script)

    def container(self, command: Sequence[str], name: str) -> dict[str, object]:
        """Return the container of every pod.

        Raises:
            ArgumentError: There is no image, or Kubernetes would refuse it or the
                resource.
        """
        options = self.options
        if options.image is None:
            raise ArgumentError(
                "a container needs an image", hint="name it: --image registry/image:tag"
            )
        if not _IMAGE.fullmatch(options.image):
            raise ArgumentError(
                f"--image {quoted(options.image)} is not the name of an image",
                hint="write, for example, --image registry/image:tag",
            )
        made: dict[str, object] = {
            "name": name,
            "image": options.image,
            "command": list(command),
        }
        if options.resource is not None:
            made["resources"] = {"limits": {_extended(options.resource): self.size}}
        return made


def manifest_format(
    *,
    name: str,
    title: str,
    kind: str,
    group: str,
    read: Callable[[Fields, str, list[Fields]], Hostfile | None],
    make: Callable[[NewJob], Sequence[object]],
    options: tuple[str, ...] = MANIFEST_OPTIONS,
) -> LauncherFormat:
    """Return a format of files with one object of a kind.

    Args:
        name: Its name on the command line.
        title: A name for people, with an article.
        kind: The kind.
        group: The group of its version.
        read: Returns the hosts, given the object, its name and all objects of the file.
        make: Returns the objects of a new file.
        options: Names of the options that the writer uses.
    """

    def read_hosts(source: SourceText) -> Hostfile | None:
        documents = documents_in(source)
        found = _only_object(source, documents, kind, group)
        return None if found is None else read(found, _name_of(found), documents)

    def write(hostfile: Hostfile, options: WriterOptions) -> str:
        refuse_interleaved(hostfile, title)
        job = NewJob(
            size=even_size(hostfile, title),
            name=_new_name(options),
            num_pods=len(hostfile.hosts),
            options=options,
        )
        return dump_yaml(*make(job))

    known = rf"^[{{ \t,]*\"?kind\"?:[ \t]*\"?{kind}\"?[ \t]*(?:#.*|,|}})?$"
    return LauncherFormat(
        name=name,
        title=title,
        read=read_hosts,
        write=write,
        matches=re.compile(known, re.MULTILINE).search,
        options=options,
        names_hosts=True,
    )


def _only_object(
    source: SourceText, documents: Sequence[Fields], kind: str, group: str
) -> Fields | None:
    """Return the only object of a kind, None after reporting that there is none."""
    found = [fields for fields in documents if fields.get("kind") == kind]
    if not found:
        if source.is_sound:
            message = f"the file has no object of the kind {kind}"
            source.report(rules.NO_HOSTS, None, message)
        return None
    for more in found[1:]:
        more.report(f"the file has a second {kind}", "kind")
    version = found[0].text("apiVersion")
    if version is not None and not version.startswith(f"{group}/"):
        message = f"apiVersion is {quoted(version)}; a {kind} is of {group}"
        found[0].report(message, "apiVersion")
    return found[0]


def _name_of(fields: Fields) -> str:
    """Return the name of an object, or an empty text after reporting an error."""
    name = fields.text("metadata", "name") or ""
    if name and not (_LABEL.fullmatch(name) and len(name) <= _MAX_LABEL):
        message = f"metadata.name {quoted(name)} cannot begin the name of a host"
        hint = "write lower-case letters, digits and hyphens, at most 63"
        fields.report(message, "metadata", "name", hint=hint)
    return name


def pods(fields: Fields, names: Sequence[str], slots: int | None) -> Hostfile | None:
    """Return the pods of an object, None after reporting errors."""
    source = fields.source
    if source.is_sound and (
        len(names) > MAX_HOSTS or len(names) * (slots or 0) > MAX_SLOTS
    ):
        message = f"this is more than {MAX_SLOTS} processes"
        source.report(TOO_MANY, fields.span_of("spec"), message)
    source.refuse_nothing(names)
    if not source.is_sound:
        return None
    return Hostfile(hosts=tuple(Host(name=name, slots=slots) for name in names))


def _new_name(options: WriterOptions) -> str:
    """Return the name of a new job.

    Raises:
        ArgumentError: The name of a host cannot begin with it.
    """
    name = DEFAULT_NAME if options.name is None else options.name
    if not _LABEL.fullmatch(name) or len(name) > _MAX_NAME:
        raise ArgumentError(
            f"--name {quoted(name)} cannot begin the name of a pod",
            hint=f"write lower-case letters, digits and hyphens, at most {_MAX_NAME}",
        )
    return name


def _extended(resource: str) -> str:
    """Return the name of an extended resource.

    Raises:
        ArgumentError: Kubernetes would refuse it. Source: kubernetes,
            pkg/apis/core/v1/helper, IsExtendedResourceName.
    """
    domain, _, name = resource.partition("/")
    is_native = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    if is_native or not (_DOMAIN.fullmatch(domain) and _RESOURCE.fullmatch(name)):
        raise ArgumentError(
            f"--resource {quoted(resource)} is not the name of a resource for chips",
            hint="write it with the domain of its vendor: --resource vendor.com/chip",
        )
    return resource


_OPTIONS = ("--nproc-per-node", "--nproc_per_node")
_VARIABLES = ("PET_NPROC_PER_NODE", "NPROC_PER_NODE")


def pod_size(fields: Fields, *template: str | int) -> int | None:
    """Return the processes of a pod, None if the manifest does not say.

    The number comes from torchrun's option in the command and its arguments, from the
    variable of that option, or from a resource such as ``nvidia.com/gpu``, in this
    order.

    Args:
        fields: The object.
        template: Path of the pod's template.
    """
    path = (*template, "spec", "containers", 0)
    containers = fields.get(*path[:-1])
    if not isinstance(containers, list) or not containers:
        fields.report(f"{dotted(path[:-1])} has no container", *path[:-1])
        return None
    for at, value in (*_in_command(fields, path), *_in_variables(fields, path)):
        return size_at(fields, at, value)
    limits = fields.get(*path, "resources", "limits")
    named = [
        (*path, "resources", "limits", str(name))
        for name in (limits if isinstance(limits, dict) else ())
        if "/" in str(name)
    ]
    if len(named) == 1:
        return size_at(fields, named[0], fields.get(*named[0]))
    return None


def _in_command(fields: Fields, path: Path) -> Iterator[tuple[Path, object]]:
    for key in ("command", "args"):
        words = fields.get(*path, key)
        if not isinstance(words, list):
            continue
        for place, word in enumerate(words):
            name, mark, value = str(word).partition("=")
            if name in _OPTIONS and mark:
                yield (*path, key, place), value
            elif name in _OPTIONS and place + 1 < len(words):
                yield (*path, key, place + 1), words[place + 1]


def _in_variables(fields: Fields, path: Path) -> Iterator[tuple[Path, object]]:
    variables = fields.get(*path, "env")
    for place, item in enumerate(variables if isinstance(variables, list) else ()):
        if not isinstance(item, dict) or item.get("name") not in _VARIABLES:
            continue
        if item.get("value") is not None:
            yield (*path, "env", place, "value"), item["value"]


def size_at(fields: Fields, path: Path, value: object) -> int | None:
    """Return the number of processes; None if it is the host's or a variable."""
    text = str(value)
    if text in SIZES_OF_THE_HOST or text.startswith("$"):
        return None
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
        message = f"{quoted(value)} is not a number of processes"
        fields.source.report(rules.BAD_COUNT, fields.span_of(*path), message)
        return None
    if len(text) > len(str(MAX_SLOTS)) or not 0 < int(text) <= MAX_SLOTS:
        message = f"a pod has 1 to {MAX_SLOTS} processes, not {text[:12]}"
        fields.source.report(rules.BAD_COUNT, fields.span_of(*path), message)
        return None
    return int(text)
