"""RT130 to RT139: syntax and shape of a description of a cluster."""

from __future__ import annotations

from ranktable.schema.diagnostic import Severity
from ranktable.schema.rules.rule import Rule

BAD_LINE = Rule(
    code="RT130",
    name="bad-line",
    summary="a line is not what this kind of file has",
    why=(
        "Launchers skip words that they do not know, or stop with the name of a token; "
        "either way the job is not the one that was meant."
    ),
    fix="Write the line as the hint shows; docs/descriptions.md shows every kind.",
    readers={
        "Open MPI": "parse error in the hostfile, with a line and a token's number",
        "MPICH": "token ... not supported at this time",
        "DeepSpeed": "ValueError: Hostfile contains a bad entry: {line}",
        "torchrun": "error: unrecognized arguments",
    },
    seen_as=(
        "Open RTE detected a parse error in the hostfile",
        "not supported at this time",
        "Hostfile contains a bad entry",
        "invalid syntax in the rankfile",
    ),
    bad=b"n1 slots=8\nn2 gpus=8\n",
    good=b"n1 slots=8\nn2 slots=8\n",
    command="convert",
    options={"from": "openmpi-hostfile"},
)
BAD_HOST = Rule(
    code="RT131",
    name="bad-host",
    summary="a host cannot have this name",
    why=(
        "A name is made of letters, digits, dots, hyphens and underscores, or is an IP "
        "address. Some names cannot be written in some files: MPICH cuts an IPv6 "
        "address at its first colon, and words such as slots are Open MPI's own."
    ),
    fix="Write one host name or address, without a count, a user or a second name.",
    readers={
        "Open MPI": "takes n1:8 and n1,n2 as names; ssh fails on them later",
        "MPICH": "takes what stands before the first colon",
    },
    bad=b"n1,n2 slots=8\n",
    good=b"n1 slots=8\nn2 slots=8\n",
    command="convert",
    options={"from": "openmpi-hostfile"},
)
BAD_COUNT = Rule(
    code="RT132",
    name="bad-count",
    summary="this is not a number of processes, nodes or ports",
    why=(
        "Launchers read numbers with atoi or int: a letter becomes 0, what follows the "
        "digits is dropped, and blanks, signs and underscores pass."
    ),
    fix="Write a plain decimal number.",
    readers={
        "Open MPI": "the slots parameter is less than 0: slots=-1",
        "MPICH": "atoi: 'x' is 0 and '8x' is 8; with 0 nothing is started there",
        "DeepSpeed": "takes the digits and ignores the rest",
    },
    seen_as=("The slots parameter is less than 0", "invalid literal for int()"),
    bad=b"n1:8\nn2:x\n",
    good=b"n1:8\nn2:8\n",
    command="convert",
    options={"from": "mpich-machinefile"},
)
NO_HOSTS = Rule(
    code="RT133",
    name="no-hosts",
    summary="the file names no host",
    why="A job needs a node. Some launchers then take this machine, without a word.",
    fix="Write at least one host.",
    readers={
        "Open MPI": "No nodes are available for this job",
        "MPICH": "starts everything on this machine",
        "DeepSpeed": "ValueError: Hostfile is empty or not formatted correctly",
    },
    seen_as=("No nodes are available for this job", "Hostfile is empty"),
    bad=b"# n1 slots=8\n",
    good=b"n1 slots=8\n",
    command="convert",
    options={"from": "deepspeed-hostfile"},
)
TOO_MANY = Rule(
    code="RT134",
    name="too-many",
    summary="more lines, hosts or processes than the limit",
    why=(
        "A file may have 2,097,152 lines and describe 1,048,576 hosts and as many "
        "processes. Brackets and counts multiply, so that a short text can mean more."
    ),
    fix="Check the counts; a number has a digit too many, perhaps.",
    bad=b"n1 slots=80000000\n",
    good=b"n1 slots=8\n",
    command="convert",
    options={"from": "openmpi-hostfile"},
)
NOT_YAML = Rule(
    code="RT135",
    name="not-yaml",
    summary="the text is not YAML",
    why="Tabs in the indentation, a bracket that is open, a colon too many.",
    fix="Mend the place shown.",
    readers={
        "Kubernetes": "error converting YAML to JSON: yaml: line ...",
        "accelerate": "yaml.scanner.ScannerError or ParserError",
    },
    seen_as=("error converting YAML to JSON", "yaml.scanner.ScannerError"),
    bad=b"num_machines: 1\nnum_processes: [8\ndistributed_type: MULTI_GPU\n",
    good=b"num_machines: 1\nnum_processes: 8\ndistributed_type: MULTI_GPU\n",
    command="convert",
    options={"from": "accelerate"},
)
REFUSED_YAML = Rule(
    code="RT136",
    name="refused-yaml",
    summary="YAML that is not read here: aliases, merge keys, tags, odd keys",
    why=(
        "Aliases let a few lines mean billions of values, and tags let a file choose "
        "types. A description needs neither, so that all of it can be seen in place."
    ),
    fix="Write the value out where it is used.",
    bad=(
        b"num_machines: &n 2\nnum_processes: *n\ndistributed_type: MULTI_GPU\n"
        b"main_process_ip: n1\n"
    ),
    good=(
        b"num_machines: 2\nnum_processes: 2\ndistributed_type: MULTI_GPU\n"
        b"main_process_ip: n1\n"
    ),
    command="convert",
    options={"from": "accelerate"},
)
WRONG_FIELD = Rule(
    code="RT137",
    name="wrong-field",
    summary="a field of a manifest or of a configuration is missing, wrong or unknown",
    why=(
        "Without completionMode Indexed a pod has no index, without a subdomain it "
        "has no name; accelerate stops at a key that it does not know."
    ),
    fix="Write the field as the message says.",
    readers={
        "Kubernetes": "accepts a Job without them; its pods cannot find each other",
        "accelerate": "ValueError: The config file had unknown keys",
    },
    seen_as=("had unknown keys", "A `distributed_type` must be specified"),
    bad=b"num_machines: 1\nnum_process: 8\ndistributed_type: MULTI_GPU\n",
    good=b"num_machines: 1\nnum_processes: 8\ndistributed_type: MULTI_GPU\n",
    command="convert",
    options={"from": "accelerate"},
)
NOT_EVERYWHERE = Rule(
    code="RT138",
    name="not-everywhere",
    severity=Severity.WARNING,
    summary="a spelling that some versions of the launcher refuse",
    why=(
        "Open MPI needs a newline after a comment, so that a comment at the very end "
        "is a parse error; Open MPI 4 refuses to exclude a host with ^; recent sources "
        "of MPICH take # for a comment at the beginning of a line only."
    ),
    fix="Write it in the way that every version reads.",
    readers={
        "Open MPI": "parse error in the hostfile",
        "MPICH": "token # not supported at this time",
    },
    bad=b"n1 slots=8\nn2 slots=8 # the last line has no newline",
    good=b"n1 slots=8\nn2 slots=8 # the last line has one\n",
    command="convert",
    options={"from": "openmpi-hostfile"},
)
IGNORED_TEXT = Rule(
    code="RT139",
    name="ignored-text",
    severity=Severity.WARNING,
    summary="text that the launcher ignores",
    why="What follows the number of slots is read by nobody, whatever it says.",
    fix="Remove it, or make a comment of it on a line of its own.",
    readers={"DeepSpeed": "ignores everything after slots=N"},
    bad=b"n1 slots=8 max_slots=8\n",
    good=b"n1 slots=8\n",
    command="convert",
    options={"from": "deepspeed-hostfile"},
)

RULES = (
    BAD_LINE,
    BAD_HOST,
    BAD_COUNT,
    NO_HOSTS,
    TOO_MANY,
    NOT_YAML,
    REFUSED_YAML,
    WRONG_FIELD,
    NOT_EVERYWHERE,
    IGNORED_TEXT,
)
