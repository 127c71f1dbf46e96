"""The options of the programs that start processes, and where they are in a line.

The parsers of torchrun, accelerate and DeepSpeed are not used: importing them imports
torch.

Sources: pytorch/pytorch, torch/distributed/run.py; huggingface/accelerate,
commands/launch.py; SchedMD/slurm, doc/man/man1/srun.1 and sbatch.1.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple

from ranktable.cluster.submissions.shell_marks import UNKNOWN, shown
from ranktable.cluster.submissions.submission import LaunchCommand, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ranktable.schema.document import SourceSpan

_TORCHRUN_VALUES: Final = (
    *("nnodes", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-id"),
    *("rdzv-conf", "max-restarts", "monitor-interval", "start-method", "role"),
    *("event-log-handler", "log-dir", "redirects", "tee", "local-ranks-filter"),
    *("node-rank", "master-addr", "master-port", "local-addr", "logs-specs"),
    *("numa-binding", "signals-to-handle", "duplicate-stdout-filters"),
    *("duplicate-stderr-filters", "shutdown-timeout"),
)
_TORCHRUN_FLAGS: Final = (
    *("standalone", "module", "no-python", "run-path", "use-env", "help"),
    "virtual-local-rank",
)
_PLAIN: Final = {
    "accelerate": {
        "num-machines": "nnodes",
        "machine-rank": "node-rank",
        "main-process-ip": "master-addr",
        "main-process-port": "master-port",
        **{name: name for name in ("num-processes", "rdzv-backend", "no-python")},
        **{name: name for name in ("config-file", "gpu-ids", "use-deepspeed")},
        **dict.fromkeys(("cpu", "tpu"), "no-gpu"),
        **dict.fromkeys(("deepspeed-hostfile", "mpirun-hostfile"), "hostfile"),
        "deepspeed-multinode-launcher": "launcher",
        **dict.fromkeys(("m", "module"), "module"),
    },
    "deepspeed": {
        **{name: name for name in ("launcher", "no-ssh")},
        # Of every node.
        **dict.fromkeys(("num-gpus", "num-accelerators"), "nproc-per-node"),
        "num-nodes": "nnodes",
        **{name: name for name in ("include", "no-python", "module", "hostfile")},
        **{name: name for name in ("master-addr", "master-port")},
    },
}
_SIZES: Final = {
    **dict.fromkeys(("tensor-parallel-size", "tp-size", "tp"), "tp"),
    **dict.fromkeys(("pipeline-parallel-size", "pp-size", "pp"), "pp"),
    **dict.fromkeys(("data-parallel-size", "dp-size", "dp"), "dp"),
    **{name: name for name in ("nnodes", "node-rank")},
}
_SERVERS: Final = {
    "sglang": {
        **_SIZES,
        **dict.fromkeys(("dist-init-addr", "nccl-init-addr"), "rdzv-endpoint"),
    },
    "vllm": {**_SIZES, **{name: name for name in ("master-addr", "master-port")}},
}
_FLAGS: Final = (  # of accelerate and deepspeed; their other options have a value
    *("q", "quiet", "cpu", "multi-gpu", "tpu", "use-mps-device", "use-xpu", "debug"),
    *("use-deepspeed", "use-fsdp", "use-megatron-lm", "use-parallelism-config"),
    *("enable-cpu-affinity", "same-network", "m", "module", "no-python", "ipex"),
    *("tpu-cluster", "no-tpu-cluster", "tpu-use-sudo", "tpu-use-cluster"),
    *("downcast-bf16", "dynamo-use-fullgraph", "dynamo-use-dynamic", "no-ssh"),
    *("dynamo-use-regional-compilation", "force-multi", "no-local-rank", "save-pid"),
    *("elastic-training", "no-ssh-check", "enable-each-rank-log-file"),
)
SIZES: Final = ("nnodes", "nproc-per-node", "num-processes", "np")
"""Options whose values are needed for the sums."""

JUDGED: Final = (
    *SIZES,
    *("node-rank", "master-addr", "master-port", "rdzv-endpoint", "rdzv-backend"),
    *("standalone", "launcher", "host", "virtual-local-rank", "tp", "pp"),
)
_SCRIPT_ONLY: Final = ("nnodes", "nproc-per-node", "node-rank", "rdzv-endpoint")

_SLURM_FLAGS: Final = (
    *("exclusive", "overlap", "label", "unbuffered", "verbose", "quiet", "no-kill"),
    *("overcommit", "oversubscribe", "pty", "preserve-env", "contiguous", "exact"),
    *("disable-status", "multi-prog", "kill-on-bad-exit", "requeue", "no-requeue"),
    *("whole", "spread-job", "use-min-nodes", "nice", "reboot", "hold", "propagate"),
    *("immediate", "share", "test-only", "parsable", "x11", "compress", "bcast"),
    *("container-mount-home", "no-container-mount-home"),
    *("container-writable", "container-remap-root", "no-container-remap-root"),
    *("no-container-entrypoint", "container-readonly", "get-user-env", "no-shell"),
)
_SLURM_LONG: Final = {
    "N": "nodes",
    "n": "ntasks",
    "c": "cpus-per-task",
    "G": "gpus",
    "w": "nodelist",
    "x": "exclude",
    "p": "partition",
    "t": "time",
    "m": "distribution",
    "J": "job-name",
    "o": "output",
    "r": "relative",
    "e": "error",
    "a": "array",
}
_SLURM_OTHER: Final = {"tasks-per-node": "ntasks-per-node"}
"""Other names for the same option."""
_SLURM_SHORT_FLAGS: Final = "EHhIkKlOQRsuVvXZ"
# Of sbatch, srun and salloc: getopt takes a beginning that only one has.
_SLURM_NAMES: Final = (
    *("accel-bind", "account", "acctg-freq", "array", "autocomplete", "batch", "bb"),
    *("bbf", "bcast", "bcast-exclude", "begin", "bell", "burst-buffer", "chdir"),
    *("cluster-constraint", "clusters", "comment", "compress", "consolidate-segments"),
    *("constraint", "container", "container-id", "contiguous", "core-spec"),
    *("cores-per-socket", "cpu-bind", "cpu-freq", "cpu_bind", "cpus-per-gpu"),
    *("cpus-per-task", "deadline", "debugger-test", "delay-boot", "dependency"),
    *("disable-status", "distribution", "epilog", "error", "exact", "exclude"),
    *("exclusive", "export", "export-file", "external-launcher", "extra"),
    *("extra-node-info", "get-user-env", "gid", "gpu-bind", "gpu-freq", "gpus"),
    *("gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "gres-flags"),
    *("help", "het-group", "hint", "hold", "ignore-pbs", "immediate", "input"),
    *("interactive", "job-name", "jobid", "kill-on-bad-exit", "label", "licenses"),
    *("mail-type", "mail-user", "mcs-label", "mem", "mem-bind", "mem-per-cpu"),
    *("mem-per-gpu", "mem_bind", "mincpus", "mloader-image", "mpi", "msg-timeout"),
    *("multi-prog", "network", "nice", "no-allocate", "no-bell", "no-kill"),
    *("no-requeue", "no-shell", "nodefile", "nodelist", "nodes", "ntasks"),
    *("ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket"),
    *("ntasks-per-tres", "oom-kill-step", "open-mode", "output", "overcommit"),
    *("overlap", "oversubscribe", "pack-group", "parsable", "partition", "power"),
    *("prefer", "preserve-env", "priority", "profile", "prolog", "propagate", "pty"),
    *("qos", "quiet", "quit-on-interrupt", "reboot", "relative", "requeue"),
    *("reservation", "resv-ports", "segment", "send-libs", "share", "signal"),
    *("slurmd-debug", "sockets-per-node", "spread-job", "spread-segments", "stepmgr"),
    *("switches", "task-epilog", "task-prolog", "tasks-per-node", "test-only"),
    *("thread-spec", "threads", "threads-per-core", "time", "time-min", "tmp"),
    *("treewidth", "tres-bind", "tres-per-node", "tres-per-task", "uid", "unbuffered"),
    *("usage", "use-min-nodes", "verbose", "version", "wait", "wait-all-nodes"),
    *("wckey", "whole", "workdir", "wrap", "x11"),
)
_QUIET: Final = (
    *("label", "verbose", "quiet", "unbuffered", "mpi", "cpu-bind", "cpu_bind", "hint"),
    *("kill-on-bad-exit", "wait", "output", "error", "job-name", "time", "mem"),
)
"""Options of srun that change nothing of what is judged."""
_SHORTEST, _NEAR = 3, 0.85
"""Characters of a name, and the part of two names that is alike, for a misspelling."""
_WRAPPERS: Final = ("time", "exec", "nohup", "env", "command", "sudo")
ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=")
HARMLESS: Final = (
    *("echo", "printf", "which", "pip", "pip3", "cat", "ls", "grep", "type", "man"),
    *("hostname", "nvidia-smi", "rocm-smi", "npu-smi", "module", "ml", "mkdir", "cd"),
    *("export", "set", "source", ".", "unset", "date", "scontrol", "squeue", "sacct"),
    *("[", "[[", "test", "sleep", "wait", "conda", "ulimit", "cp", "mv", "rm", "true"),
    *("declare", "readonly", "local", "trap", "exit", "tee", "sed", "awk", "head"),
    *("env", "chmod", "touch", "ln", "pwd", "dirname", "nproc", "free", "df", "lscpu"),
    *("ibstat", "ibv_devinfo", "shopt", "umask", "eval", "alias", "command", "tail"),
    *("ranktable", "git", "wget", "curl", "tar", "unzip", "rsync", "uname", "whoami"),
    *("for", "case", "select", "function", "continue", "break", "return", "read"),
    *("mapfile", "readarray", "let", "pushd", "popd", ":", "false", "sbcast"),
    *("scancel", "shift", "getopts", "hash", "jobs", "disown", "kill", "seq", "bc"),
    *("basename", "realpath", "readlink", "stat", "wc", "sort", "uniq", "tr", "cut"),
    *("find", "diff", "du", "sync", "id", "getent", "ip", "ifconfig", "ping", "lspci"),
    *("ldd", "zip", "gzip", "scp", "nslookup", "numastat", "printenv", "clear"),
    *("make", "cmake", "gcc", "nvcc", "md5sum", "times", "jq", "yq", "locale"),
    *("pkill", "pgrep", "killall", "ps", "whereis", "file", "lsof", "ss", "tput"),
    *("g++", "gfortran", "clang", "hipcc", "cc", "CC", "ftn", "icc", "icx", "ifort"),
    *("mpicc", "mpicxx", "mpic++", "mpif90", "mpifort", "mpiicc", "mpiicpc"),
    *("virtualenv", "apt", "apt-get", "yum", "aws", "gsutil", "hf", "huggingface-cli"),
    *("sinfo", "sstat", "seff", "sprio", "nvidia-cuda-mps-control", "deactivate"),
)
_MAY_READ: Final = ("source", ".", "eval", "conda", "find", "ip")
_MAY_START: Final = ("conda", "eval", "find", "ip")
"""Harmless programs behind which another one may be started."""
_MPIRUN: Final = {
    **dict.fromkeys(("np", "n", "c"), "np"),
    **dict.fromkeys(("H", "host", "hosts"), "host"),
    **dict.fromkeys(("hostfile", "machinefile", "f"), "hostfile"),
    **dict.fromkeys(("npernode", "N", "ppn", "perhost"), "per-node"),
    "map-by": "map-by",
}
_ON_EACH_NODE: Final = re.compile(r"ppr:([0-9]{1,6}):node\b.*")
# Open MPI 4 and 5, and Hydra of MPICH and Intel MPI; options not named here have no
# value, or one behind an equals sign.
_MPIRUN_VALUES: Final = {
    **dict.fromkeys(_MPIRUN, 1),
    **dict.fromkeys(("npersocket", "ppr"), 1),
    **dict.fromkeys(("x", "rank-by", "bind-to", "cpu-set", "cpu-list"), 1),
    **dict.fromkeys(
        ("rf", "rankfile", "prefix", "wdir", "wd", "path", "tune", "am"), 1
    ),
    **dict.fromkeys(
        ("output-filename", "output", "timeout", "stdin", "personality"), 1
    ),
    **dict.fromkeys(("iface", "launcher", "bootstrap", "rmk", "launcher-exec"), 1),
    **dict.fromkeys(("genvlist", "envlist", "genvexcl", "envexcl", "configfile"), 1),
    **dict.fromkeys(("mca", "gmca", "omca", "pmixmca", "prtemca", "genv", "env"), 2),
}
_HYDRA: Final = "mpiexec.hydra"
_NOT_ALL: Final = tuple(
    f"{scope}env{which}" for scope in ("g", "") for which in ("none", "list", "excl")
)
_MODULES: Final = {
    **dict.fromkeys(("torch.distributed.run", "torch.distributed.launch"), "torchrun"),
    "torchrun_jsc": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
    "sglang.launch_server": "sglang",
    "vllm.entrypoints.openai.api_server": "vllm",
}
_TORCHRUN: Final = ("torchrun", "torchrun_jsc")  # the latter is that of FZ Juelich
_PROGRAMS: Final = {
    **dict.fromkeys(_TORCHRUN, "torchrun"),
    "accelerate-launch": "accelerate",
    "deepspeed": "deepspeed",
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra"), "mpirun"),
}
_WORD: Final = re.compile(r"--[a-z][\w-]+(?:=.*)?")
UNREAD: Final = "unread"
"""An option that torchrun does not have."""
OWN_TORCHRUN: Final = "python torchrun"
"""Python with a file of the working folder, not the program torchrun."""
_VERBS: Final = {"accelerate": "launch", "vllm": "serve", "sglang": "serve"}
_OTHER_LAUNCHERS: Final = (
    *("horovodrun", "bpslaunch", "msrun", "composer", "colossalai", "tune", "fabric"),
    *("lightning", "torchx", "llamafactory-cli", "axolotl", "xtuner", "swift"),
)
_OF_LAUNCHERS: Final = re.compile(
    r"--(?:nproc|nproc[-_]per[-_]node|nnodes|num[-_]nodes|node[-_]rank)(?:=.*)?"
)
"""Options by which a program shows that it starts several processes."""
_OTHER_MODULES: Final = ("paddle.distributed.launch", "horovod.runner.launch")
SHELLS: Final = ("bash", "sh", "zsh", "dash", "ksh", "mksh", "ash")
_SCRIPT_ENDINGS: Final = (".sh", ".bash")
_PYTHON: Final = re.compile(r"(?:.*/)?python[0-9.]*")


class Line(NamedTuple):
    """The words of a line and the program among them.

    Attributes:
        options: Options before the program: those of srun.
        rest: The program and its arguments.
        is_whole: Whether all of the options are known.
    """

    options: Mapping[str, str]
    rest: Sequence[str]
    is_whole: bool


def base(word: str) -> str:
    """Return the name of a program."""
    return word.rsplit("/", 1)[-1]


def is_shell_file(name: str) -> bool:
    """Whether a program is a script of a shell, which may set variables."""
    return name.endswith(_SCRIPT_ENDINGS)


def slurm_options(words: Sequence[str]) -> Line:
    """Return the options of srun or sbatch, and what is behind them."""
    options: dict[str, str] = {}
    is_whole = True
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--" or not word.startswith("-") or word == "-":
            if word[:1] == UNKNOWN and "/" not in word:  # srun $OPTIONS program
                is_whole, at = False, at + 1
                continue
            at += word == "--"
            break
        name, value, is_given = _slurm_option(word)
        at += 1
        is_other = is_given or at >= len(words) or words[at].startswith("-")
        if not (is_other or is_slurm_flag(word, name)):
            value, at = words[at], at + 1
        options[name] = value
    return Line(options, words[at:], is_whole)


def _slurm_option(word: str) -> tuple[str, str, bool]:
    """Return the long name of an option, its value, and whether it has one."""
    if word.startswith("--"):
        name, sign, value = word[2:].partition("=")
        if name not in _SLURM_NAMES:
            near = [each for each in _SLURM_NAMES if each.startswith(name)]
            name = near[0] if len(near) == 1 else name
        return _SLURM_OTHER.get(name, name), value, bool(sign)
    letter, value = word[1:2], word[2:]
    return _SLURM_LONG.get(letter, letter), value.removeprefix("="), bool(value)


def are_quiet(text: str) -> bool:
    """Whether a text is options of srun or of a plugin that say no size and no place.

    The site's plugins of Slurm have options of their own, as ``--auto-resume=1`` of
    SageMaker HyperPod; a launcher behind srun has none of these names.
    """
    of_launchers = [*_PLAIN.values(), *_SERVERS.values()]
    for word in text.split():
        name, sign, _ = word[2:].partition("=")
        is_known = name in _SLURM_NAMES or torchrun_name(word) is not None
        is_known = is_known or any(name in names for names in of_launchers)
        is_of_plugin = sign and not is_known
        if not (word.startswith("--") and (name in _QUIET or is_of_plugin)):
            return False
    return True


def near_slurm_option(name: str) -> str | None:
    """Return the option that the long name of none may mean, None if none is near."""
    if len(name) < _SHORTEST or name in (*_SLURM_NAMES, *_SLURM_FLAGS):
        return None
    sizes = range(len(name) - 2, len(name) + 3)
    alike = [n for n in _SLURM_NAMES if n[0] == name[0] and len(n) in sizes]
    near = get_close_matches(name.replace("_", "-"), alike, 1, _NEAR)
    return near[0] if near else None


def is_slurm_flag(word: str, name: str) -> bool:
    """Whether an option of Slurm with this long name takes no word behind it."""
    if word.startswith("--"):
        return name in _SLURM_FLAGS
    return word[1:2] in _SLURM_SHORT_FLAGS


def find_launch(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the program that starts processes, and its arguments; empty if none."""
    has_script = False
    for at, word in enumerate(words):
        name, rest = base(word), words[at + 1 :]
        if not at and name in HARMLESS and name not in _MAY_START:
            break  # pkill python torchrun
        has_script = has_script or name.endswith(_SCRIPT_ENDINGS)
        # uv run --python python torchrun
        is_value = has_script or rest[:1] == ["torchrun"]
        is_value = is_value and at > 0 and words[at - 1].startswith("-")
        if name in _PROGRAMS and (rest or not at):  # not pkill torchrun
            return _PROGRAMS[name], rest
        if _PYTHON.fullmatch(word) and not is_value:  # ./test.sh -p python
            return _python(rest)
        if name in _VERBS and rest[:1] == [_VERBS[name]]:
            return name, rest[1:]
    return "", words


def _python(rest: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return what an interpreter runs."""
    for at, word in enumerate(rest):
        if rest[max(at - 1, 0)] in ("-W", "-X"):
            continue  # its value
        if word == "-c":
            return "", ()
        if word == "-m" and at + 1 < len(rest):
            return _MODULES.get(rest[at + 1], "python"), rest[at + 2 :]
        if not word.startswith("-"):
            program = "torchrun" if base(word) in _TORCHRUN else "python"
            if word == "torchrun":  # python looks in the working folder only
                program = OWN_TORCHRUN if rest[at + 1 :] else "python"
            return program, rest[at + 1 :]
    return "python", ()


def only_looks(words: Sequence[str]) -> bool:
    """Whether a command is none of the processes of a job."""
    return bool(words) and base(words[0]) in {*HARMLESS} - {*_MAY_READ}


def read_command(words: Sequence[str], span: SourceSpan | None) -> LaunchCommand:
    """Return the command in a line of words."""
    program, rest = find_launch(words)
    if only_looks(words):
        return LaunchCommand(only_looks=True, span=span)
    if program == "torchrun":
        return _torchrun(rest, span)
    if program in _PLAIN:
        return _with_plain_options(program, rest, span)
    if program in _SERVERS:
        return LaunchCommand(
            program=program,
            span=span,
            options=_plain_options(rest, _SERVERS[program], span),
            is_whole=not any(word[:1] == UNKNOWN for word in rest),
        )
    if program == "mpirun":
        return _mpirun(rest, span, base(words[len(words) - len(rest) - 1]))
    is_whole = not any(base(word)[:1] == UNKNOWN for word in words[:1])
    script = "" if program else _script_of_shell(words)
    unjudged = (f"what {shown(base(script))} starts is not in the file",)
    other = _other_launcher(words)
    if other:
        program, script = "", other
        unjudged = (f"what {other} starts is not judged",)
    return LaunchCommand(
        program=program,
        span=span,
        is_whole=is_whole and not script,
        script=tuple(rest),
        unjudged=unjudged if script else (),
        is_wrapped=any(map(is_shell_file, words[: len(words) - len(rest)])),
    )


def _other_launcher(words: Sequence[str]) -> str:
    """Return a program that starts several others by rules of its own, or nothing."""
    for at, word in enumerate(words):
        if base(word) in _OTHER_LAUNCHERS:
            return base(word)
        if _PYTHON.fullmatch(word):
            return _other_module(words[at + 1 :])
    if find_launch(words)[0] or not any(map(_OF_LAUNCHERS.fullmatch, words[1:])):
        return ""
    return shown(base(words[0]))


def _other_module(words: Sequence[str]) -> str:
    """Return a module that starts several processes by rules of its own, or nothing."""
    at = next((n for n, word in enumerate(words) if word in ("-m", "-c")), len(words))
    if not all(word.startswith("-") for word in words[:at]) or words[at:][:1] != ["-m"]:
        return ""
    module, rest = next(iter(words[at + 1 : at + 2]), ""), words[at + 2 :]
    is_launcher = any(  # that of Lightning is an option of many programs
        _OF_LAUNCHERS.fullmatch(word) and "num" not in word for word in rest
    )
    known = module in _MODULES
    return module if not known and (module in _OTHER_MODULES or is_launcher) else ""


def _script_of_shell(words: Sequence[str]) -> str:
    """Return the script of a shell that a line runs, empty if it runs none."""
    for at, word in enumerate(words):
        if base(word) in SHELLS:  # without a name it reads its standard input
            return next((w for w in words[at + 1 :] if not w.startswith("-")), word)
        if word.endswith(_SCRIPT_ENDINGS):
            return word
    return ""


def after_shell_options(words: Sequence[str], at: int) -> tuple[int, bool]:
    """Return the index behind the options of a shell, and whether a text is there.

    Args:
        words: The words of a line; the index returned may be their number.
        at: The index of the shell.

    Source: POSIX.1-2024, sh; the GNU Bash manual, "Invoking Bash".
    """
    has_text = False
    at += 1
    while at < len(words) and words[at][:1] in ("-", "+"):
        word = words[at]
        at += 1
        if word in ("-", "--"):
            break
        if word.startswith("--"):
            at += word in ("--rcfile", "--init-file")
            continue
        has_text = has_text or (word[0] == "-" and "c" in word)
        at += word[1:].lower().count("o")  # each has a value: -euo pipefail
    return min(at, len(words)), has_text


def torchrun_name(word: str) -> str | None:
    """Return the name of an option of torchrun, also for a unique beginning of it."""
    written = word[2:].partition("=")[0]
    if "-" in written and "_" in written:
        return None  # it takes either of the two
    name = written.replace("_", "-")
    known = (*_TORCHRUN_VALUES, *_TORCHRUN_FLAGS)
    if name in known:
        return name
    near = [each for each in known if each.startswith(name)]
    return near[0] if name and len(near) == 1 else None


def _torchrun(words: Sequence[str], span: SourceSpan | None) -> LaunchCommand:
    options: dict[str, Setting] = {}
    is_whole = True
    at = 0
    while at < len(words):
        word = words[at]
        if not word.startswith("-"):
            if word.strip(UNKNOWN):
                break
            is_whole = False  # perhaps options in a variable
            at += 1
            continue
        at += 1
        if word in ("-m", "-r", "-t", "-h"):
            if word in ("-m", "-h"):
                long = "module" if word == "-m" else "help"
                options[long] = Setting("", word, span)
            at += word in ("-r", "-t")
            continue
        name = torchrun_name(word) if word.startswith("--") else None
        if name is None or name in _TORCHRUN_FLAGS:
            if name is not None:
                options[name] = Setting("", word, span)
            elif _WORD.fullmatch(word):
                options[UNREAD] = Setting("", word.partition("=")[0], span)
            is_whole = is_whole and (name is not None or "=" in word)
            continue
        value, at = _value(words, at)
        options[name] = Setting(value, _said(word, value), span)
    if "help" in options:
        return LaunchCommand(span=span)
    script = words[at + 1 :] if is_whole else ()
    return LaunchCommand(
        program="torchrun",
        span=span,
        options=options,
        script_options=tuple(_behind_script(script, span)),
        script=tuple(words[at:]),
        is_whole=is_whole,
    )


def _value(words: Sequence[str], at: int) -> tuple[str, int]:
    """Return the value of the option before an index, and the index behind it."""
    _, sign, value = words[at - 1].partition("=")
    if sign:
        return value, at
    return (words[at], at + 1) if at < len(words) else ("", at)


def _said(word: str, value: str) -> str:
    """Return an option as a message shows it."""
    name, sign, _ = word.partition("=")
    return f"{name}{sign or ' '}{shown(value)}"


def _behind_script(words: Sequence[str], span: SourceSpan | None) -> list[Setting]:
    found = []
    for at, word in enumerate(words, 1):
        name = word[2:].partition("=")[0].replace("_", "-")
        if word.startswith("--") and name in _SCRIPT_ONLY:
            value, _ = _value(words, at)
            found.append(Setting(name, _said(word, value), span))
    return found


def _plain_options(
    words: Sequence[str], names: Mapping[str, str], span: SourceSpan | None
) -> dict[str, Setting]:
    """Return the options of a program by our names; the others are left out."""
    found: dict[str, Setting] = {}
    for at, word in enumerate(words, 1):
        if word.endswith(".py"):
            break
        name = word.lstrip("-").partition("=")[0].replace("_", "-")
        if word.startswith("-") and name in names:
            value, _ = _value(words, at)
            found[names[name]] = Setting(value, _said(word, value), span)
    return found


def _with_plain_options(
    program: str, words: Sequence[str], span: SourceSpan | None
) -> LaunchCommand:
    """Return the command of a program whose script is the first word of its own."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, sign, _ = words[at].lstrip("-").partition("=")
        is_alone = sign or name.replace("_", "-") in _FLAGS
        is_alone = is_alone or "".join(words[at + 1 : at + 2]).endswith(".py")
        at += 1 if is_alone else 2
    return LaunchCommand(
        program=program,
        span=span,
        options=_plain_options(words, _PLAIN[program], span),
        script=tuple(words[at:]),
        is_whole=at >= len(words) or words[at].strip(UNKNOWN) != "",
    )


def _mpirun(
    words: Sequence[str], span: SourceSpan | None, program: str
) -> LaunchCommand:
    read, end = options_of_mpirun(words)
    own = words[:end]
    given, passed = _variables_of_mpirun(read, span, is_hydra=program == _HYDRA)
    options = _plain_options(own, _MPIRUN, span)
    by = options.get("map-by")
    if by is not None and (match := _ON_EACH_NODE.fullmatch(by.text)):
        options["per-node"] = by._replace(text=match[1])
    if any("oversubscribe" in word.lower() for word in own):
        options["oversubscribe"] = Setting("", "--oversubscribe", span)
    is_whole = UNKNOWN not in own
    if ":" in words:  # several programs, each with its own number
        options.pop("np", None)
        is_whole = False
    return LaunchCommand(
        program="mpirun",
        span=span,
        options=options,
        script=tuple(words[end:]),
        is_whole=is_whole,
        given=given,
        passed=passed,
    )


def options_of_mpirun(words: Sequence[str]) -> tuple[list[Sequence[str]], int]:
    """Return each option with its values, and the index of the program."""
    found: list[Sequence[str]] = []
    at = 0
    while at < len(words):
        word = words[at]
        if not word.startswith("-") and word.strip(UNKNOWN):
            break  # also the value of an option that is not known here
        name = word.lstrip("-")
        size = 0 if "=" in word else _MPIRUN_VALUES.get(name, 0)
        if name in ("genv", "env") and "=" in "".join(words[at + 1 : at + 2]):
            size = 1  # NAME=VALUE
        found.append(words[at : at + 1 + size])
        at += 1 + size
    return found, min(at, len(words))


def _variables_of_mpirun(
    read: Sequence[Sequence[str]], span: SourceSpan | None, *, is_hydra: bool
) -> tuple[dict[str, Setting], frozenset[str] | None]:
    """Return the variables that options give, and the names of those passed on.

    Hydra passes all if nothing else is said. Open MPI passes those that ``-x`` names;
    its daemons may have others, as where srun starts them.

    Source: the manual pages of mpiexec (MPICH, Intel MPI) and of mpirun (Open MPI).
    """
    given: dict[str, Setting] = {}
    names: set[str] = set()
    seen = {option.lstrip("-") for option, *_ in read}
    for option, *values in read:
        kind = option.lstrip("-")
        if kind in ("x", "genv", "env"):
            name, sign, value = "=".join(values).partition("=")
            names.add(name)
            if sign:
                said = f"{option} {shown(' '.join(values))}"
                given[name] = Setting(value, said, span)
        elif values[:1] == ["mca_base_env_list"]:
            for item in values[-1].split(";"):
                name, sign, value = item.partition("=")
                names.add(name)
                if sign:
                    given[name] = Setting(value, shown(item), span)
        elif kind in ("genvlist", "envlist"):
            names.update("".join(values).split(","))
    is_all = is_hydra or bool(seen & {"genv", "env", "genvall", "envall"})
    return given, None if is_all and not seen & {*_NOT_ALL} else frozenset(names)


def split_wrappers(words: Sequence[str]) -> Sequence[str]:
    """Return a line without programs that only start another one."""
    at = 0
    while at < len(words) and base(words[at]) in _WRAPPERS:
        if words[at] == "command" and words[at + 1 : at + 2] in (["-v"], ["-V"]):
            break  # says where a program is
        at += 1
        while at < len(words) and (
            words[at].startswith("-") or ASSIGNED.match(words[at])
        ):
            at += 2 if words[at] == "-u" else 1
    return words[at:]
