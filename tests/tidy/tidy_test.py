"""Checks what one include root and a compiler cannot: which folder may include which, file sizes, banned calls, banned phrases.

    python3 tests/tidy/tidy_test.py ROOT
"""

import pathlib
import re
import subprocess
import sys

# folder -> folders whose headers, or single headers, its sources may include (itself always). The longest matching prefix
# counts.
ALLOWED = {
    "common/base": [],
    "common/command_line": ["common/base", "common/config/violation_list.h", "common/config/yaml_document.h", "common/config/yaml_settings.h",
                            "common/io", "common/logging"],
    "common/layout": ["common/base"],
    "common/blocks": ["common/base", "common/layout"],
    "common/graph": ["common/base", "common/io"],
    "common/safetensors": ["common/base", "common/io"],
    "common/hf": ["common/base", "common/io", "common/layout", "common/safetensors"],
    "common/partition": ["common/base"],
    "common/schedule": ["common/base"],
    "common/plan": ["common/base", "common/codec", "common/graph/gather_index.h", "common/layout", "common/partition", "common/schedule"],
    "common/plan/job": ["common/base", "common/codec", "common/config", "common/layout", "common/partition", "common/plan", "common/rpc/codec_proto.h", "proto"],
    "common/device": ["common/base"],
    "common/io": ["common/base"],
    "common/http": ["common/base"],
    "common/metrics": ["common/base", "common/http", "proto"],
    "common/logging": ["common/base"],
    "common/codec": ["common/base", "common/layout"],
    "common/codec/cuda": ["common/base", "common/codec", "common/device", "common/layout"],
    "common/config": ["common/base", "common/hf/hf_config.h", "common/io", "common/layout", "common/partition", "common/schedule", "proto"],
    "common/track": ["common/base", "common/io", "common/logging", "proto"],
    "common/wire": ["common/base", "common/io", "common/schedule", "proto"],
    "common/checkpoint": ["common/base", "common/blocks", "common/config", "common/hf", "common/io", "common/layout", "common/wire", "proto"],
    "common/rpc": ["common/base", "common/blocks", "common/codec", "common/io", "common/layout", "common/logging", "proto"],
    "coordinator/job": ["common/base", "common/schedule"],
    "coordinator/pool": ["common/base", "coordinator/job/job_fault.h"],
    "coordinator/sync": ["common/base", "common/schedule"],
    "coordinator/core": ["common/base", "common/schedule", "coordinator/job", "coordinator/pool", "coordinator/sync"],
    "coordinator/outer": ["common/base", "common/codec", "common/io", "common/layout"],
    "coordinator/store": ["common/base", "common/blocks", "common/checkpoint", "common/codec", "common/io", "common/layout", "common/plan", "common/schedule", "common/wire", "coordinator/job/lifecycle.h", "coordinator/job/outer_guard.h", "coordinator/outer",
                          "proto"],
    "coordinator/fragments": ["common/", "coordinator/job/contribution_id.h", "coordinator/outer", "coordinator/store", "proto"],
    "coordinator/effects": ["common/", "coordinator/core", "coordinator/fragments", "coordinator/job", "coordinator/pool", "coordinator/store",
                            "coordinator/sync", "proto"],
    "coordinator/access": ["common/base", "common/logging", "common/rpc", "proto"],
    # Core, jobs and places are seen through effects alone; of the store only the values that reports show.
    "common/simulation": ["common/base"],
    # Sees both sides.
    "coordinator/simulation": ["common/base", "common/config", "common/plan", "common/plan/job", "common/rpc", "common/schedule", "common/simulation", "coordinator/core",
                               "coordinator/job", "worker/session/core", "proto"],
    "coordinator/service": ["common/", "coordinator/access", "coordinator/effects/control_plane.h", "coordinator/effects/evaluation_reports.h", "coordinator/effects/job_events.h",
                            "coordinator/effects/live_job.h", "coordinator/effects/owner_thread.h", "coordinator/effects/publisher.h",
                            "coordinator/effects/recovery.h", "coordinator/effects/refusal.h", "coordinator/store/checkpoint.h", "coordinator/store/job_folder.h", "coordinator/store/round_records.h", "coordinator/store/uploads.h",
                            "proto"],
    "coordinator/server": ["common/", "coordinator/", "proto"],
    "coordinator/cli": ["common/base", "common/checkpoint", "common/command_line", "common/config", "common/device", "common/graph", "common/hf", "common/io", "common/layout", "common/plan", "common/plan/job", "common/rpc",
                        "common/safetensors", "common/wire", "coordinator/simulation/job_simulation.h", "worker/data", "worker/data/graph", "worker/measure", "proto"],
    "worker/replica": ["common/base", "common/layout"],
    "worker/state": ["common/base", "common/io", "common/layout", "common/logging", "common/safetensors", "worker/replica"],
    "worker/cores": ["common/base", "common/io"],
    "worker/collective": ["common/base", "common/device", "common/codec"],
    # Of collective the interface alone: who serves the ranks needs no gloo.
    "worker/rendezvous": ["common/base", "common/rpc", "worker/collective/rendezvous.h", "proto"],
    "worker/optim": ["common/base", "common/device", "worker/collective", "worker/kernels"],
    "worker/movement": ["common/base"],
    "worker/movement/cuda": ["common/base", "common/device", "worker/movement"],
    "worker/offload": ["common/base", "common/io", "common/plan", "worker/movement", "worker/optim"],
    "worker/data": ["common/base", "common/hf/hf_tokenizer.h", "common/io"],
    "worker/data/graph": ["common/base", "common/graph", "common/io", "worker/data"],
    "worker/graph": ["common/base", "common/graph", "common/io", "worker/data/permutation.h", "worker/graph/cuda", "worker/kernels"],
    "worker/graph/cuda": ["common/base", "common/device", "common/graph/dropout_bits.h", "common/graph/gather_index.h", "common/layout/graph_sage_layout.h"],
    "worker/kernels": ["common/base"],
    "worker/measure": ["common/base", "common/codec", "common/io", "common/layout", "common/plan", "common/wire", "worker/kernels", "proto"],
    "worker/kernels/cuda": ["common/base", "common/device"],
    "worker/model": ["common/base", "common/graph/dropout_bits.h", "common/layout", "worker/graph/cuda/sage_kernels.h", "worker/kernels", "worker/kernels/cuda"],
    "worker/engine": ["common/base", "common/codec", "common/codec/cuda", "common/device", "common/io", "common/layout", "common/logging/line_queue.h", "common/partition",
                      "common/plan", "worker/collective", "worker/model", "worker/movement", "worker/movement/cuda", "worker/offload", "worker/optim", "worker/plan"],
    "worker/plan": ["common/base", "common/config/job_spec.h", "common/partition", "common/plan", "worker/movement", "worker/optim", "proto"],
    "worker/family": ["worker/data/batch.h", "worker/model", "worker/plan"],
    "worker/family/graph": ["common/base", "common/graph", "common/io", "common/layout", "worker/data/batch.h", "worker/data/data_warning.h",
                            "worker/engine/device.h", "worker/engine/torch_status.h", "worker/family", "worker/graph", "worker/graph/cuda", "worker/model"],
    "worker/family/language": ["common/base", "common/layout", "worker/data", "worker/engine/device.h", "worker/engine/torch_status.h", "worker/family",
                               "worker/kernels/cuda", "worker/model"],
    "worker/trainer": ["common/base", "common/io", "common/layout", "common/partition", "worker/collective", "worker/data", "worker/engine", "worker/family", "worker/plan",
                       "worker/kernels/cuda", "worker/model", "worker/offload", "worker/optim", "worker/replica"],
    "worker/lm": ["common/", "worker/data", "worker/data/graph", "worker/engine/torch_status.h", "worker/graph", "worker/model", "proto"],
    "worker/session/core": ["common/base", "common/schedule"],
    "worker/session": ["common/base", "common/blocks", "common/codec", "common/codec/cuda", "common/io", "common/layout", "common/logging",
                       "common/rpc", "common/schedule", "common/wire", "worker/replica", "worker/session/core", "worker/state", "proto"],
    "worker/agent": ["common/base", "common/command_line", "common/config/capabilities.h", "common/device", "common/http", "common/io", "common/logging", "common/metrics", "common/plan/job/measured_rates.h", "common/rpc", "common/track", "common/wire", "worker/cores", "worker/measure/host_figures.h", "worker/rank", "worker/rendezvous",
                     "worker/state/state_folders.h", "proto"],
    "worker/rank": ["common/", "worker/", "proto"],
}
TORCH = ("worker/engine", "worker/family", "worker/family/graph", "worker/family/language", "worker/lm", "worker/model", "worker/optim", "worker/trainer")
PURE = ("coordinator/core", "coordinator/job", "coordinator/pool", "coordinator/sync", "worker/session/core", "common/partition", "common/schedule",
        "common/layout", "common/plan")
LINES_MAX = 600
WIDTH_MAX = 120  # clang-format keeps 100 but for what it cannot break
COMMENT_WIDTH_MAX = 100  # of C++ and protos: clang-format leaves comments as they are


def folder_of(path):
    matches = [folder for folder in ALLOWED if path == folder or path.startswith(folder + "/")]
    return max(matches, key=len) if matches else None


def allows(entry, target, header):
    """Whether an entry of ALLOWED (a folder, folders below one with a slash at its end, one header) allows the header."""
    if entry.endswith(".h"):
        return header == entry
    return target == entry or (entry.endswith("/") and str(target).startswith(entry))


def check_includes(name, text):
    own = folder_of(str(pathlib.PurePath(name).parent))
    if own is None:
        yield "is in a folder that tests/tidy does not know"
        return
    for header in re.findall(r'^#include ["<]([^">]+)[">]', text, re.MULTILINE):
        top = header.split("/")[0]
        if top == "longhaul":
            target = "proto"
        elif top in ("common", "coordinator", "worker"):
            target = folder_of(str(pathlib.PurePath(header).parent))
        elif top == "tests":
            yield f"includes a test header: {header}"
            continue
        else:
            if top in ("torch", "ATen", "c10") and own not in TORCH:
                yield f"sees torch: {header}"
            if header == "torch/torch.h":
                yield "includes torch/torch.h (14 s and 1.4 GB to compile); name the single headers"
            if own in PURE and (top in ("grpc", "grpcpp", "google", "thread", "mutex") or header == "absl/time/clock.h"):
                yield f"is part of a pure core and includes {header}"
            continue
        if target != own and not any(allows(a, target, header) for a in ALLOWED[own]):
            yield f"may not include {header}"


def check_text(name, text):
    lines = text.splitlines()
    if len(lines) > LINES_MAX:
        yield f"has {len(lines)} lines; split it by operation (at most {LINES_MAX})"
    if name.endswith(".h") and "#pragma once" not in text and not name.endswith("-inl.h"):  # Highway includes -inl.h files once for each target
        yield "lacks #pragma once"
    for number, line in enumerate(lines, 1):
        if re.search(r"\b(TODO|FIXME|XXX)\b", line):
            yield f"line {number} marks something unfinished"


def check_columns(name, text):
    for number, line in enumerate(text.splitlines(), 1):
        narrow = name.endswith((".h", ".cc", ".cu", ".proto")) and re.search(r"(^|\s)//( |$)", line)
        if len(line) > (COMMENT_WIDTH_MAX if narrow else WIDTH_MAX):
            yield f"line {number} has {len(line)} columns"


HANDLER = re.compile(r"^grpc::Server\w+(?:<[^;{]*?>)?\*\s+(\w+Service::\w+)\([^{]*?\)\s*\{\s*(\w*)", re.MULTILINE)


def check_handlers(text):
    """The door's guard (coordinator/access/door.h) holds back what a handler answers, but not what it does before it asks."""
    for method, first in HANDLER.findall(text):
        if first != "LH_RETURN_IF_REFUSED":
            yield f"{method} does not begin with LH_RETURN_IF_REFUSED"


RULE = re.compile(r'\{"/longhaul\.v1\.(\w+/\w+)",([^}]*)\}')
RAW = re.compile(r"v1::(\w+)::WithRawCallbackMethod_(\w+)")


def check_raw_methods(rules, services):
    """The audit log reads the requests of audited methods, so it must know which handlers are registered with serialized ones."""
    raw = {"/".join(method) for text in services for method in RAW.findall(text)}
    if not raw:
        yield "coordinator/service: no raw method is found"
    for method, rule in RULE.findall(rules):
        if "/*raw=*/true" in rule and method not in raw:
            yield f"coordinator/access/methods.cc: {method} is raw, but its handler takes parsed messages"
        if "/*audited=*/true" in rule and "/*raw=*/true" not in rule and method in raw:
            yield f"coordinator/access/methods.cc: {method} is audited and its handler takes serialized messages, so its rule is raw"


NAMESPACE_OR_TYPE = re.compile(r"^namespace ([\w:]+) \{|^(?:class|struct|enum class) (\w+)[^;<]*\{", re.MULTILINE)


def types_of(text):
    """The types that a header defines, with their namespaces."""
    namespace = ""
    for entered, name in NAMESPACE_OR_TYPE.findall(text):
        namespace = entered or namespace
        if name:
            yield f"{namespace}::{name}"


# Bounds that documents name: (file, name of the constant) -> {document: the words with it}.
BOUNDS = {
    ("coordinator/core/coordinator.h", "jobs_max"): {
        "docs/limits.md": "at most {} jobs that have not ended", "docs/design/threat-model.md": "room next to its own (of {})",
        "docs/operate/security.md": "For all users together: {} jobs that have not ended", "proto/longhaul/v1/job.proto": "JOBS_FULL: {} jobs have not ended"},
    ("coordinator/core/coordinator.h", "pools_max"): {"docs/limits.md": "gives leases to at most {} pools"},
    ("common/base/names.h", "kRanksMax"): {"docs/limits.md": "a pool has at most {} ranks"},
}


def check_bounds(text_of):
    """`text_of`: the text of a file of the tree, by its name."""
    for (source, name), documents in BOUNDS.items():
        value = re.search(rf"\b{name} = (\d+);", text_of(source))
        if value is None:
            yield f"{source}: {name} is not found"
            continue
        for document, words in documents.items():
            plain = re.sub(r"\s+(//\s*)?", " ", text_of(document))
            if words.format(f"{int(value[1]):,}") not in plain:
                yield f"{document} does not say '{words.format(f'{int(value[1]):,}')}' (of {source})"


# Phrases that must not come back: CONTRIBUTING.md has the words for them. (pattern, words instead)
TRANSLATED = [(re.compile(pattern), instead) for pattern, instead in (
    (r"(?i)(?<!there )\bis no (?!longer\b|more\b|backup\b)[a-z]", "is not a ..."),
    (r"\b(go|goes|going) on\b|\bwent on\b", "continue, resume"),
    (r"\btold of\b", "report"),
    (r"\bbeside\b", "alongside, next to, in addition to"),
    (r"\b(begin|begins|began|begun|start|starts) again\b", "restart"),
    (r"\b(begin|begins) with (a|the|its|another) [\w ]{0,20}(checkpoint|folder)\b", "start from"),
    (r"(^|[.;:] )Of (JSONL|text|a|an|the|its|partitions|this|one)\b(?! model)", "name the subject first: 'For JSONL: ...'"),
    (r"[,(] ?as (--)?['`]?[a-z0-9.:=@_-]*[0-9]", "for example"),
    (r"\bis there,? (and|already)\b|\bis not there\b|\bthat is there\b", "exists, does not exist"),
    (r"\b(stood|stand|stands) still\b", "wait, stall, hang"),
    (r"\b(dial|dials|dialled|dialed)\b", "connect to"),
    (r"\bsince 1970\b", "as Unix time"),
    (r"\b(nobody|everybody|somebody) (listens|answers|who|can|is let)\b", "no server, no user, anyone"),
    (r"\bwhat came\b|\bwhoever\b", "received data, anyone"),
    (r"\bof no use\b", "unusable"),
    (r"\bgoing down\b", "shutting down"),
    (r"\b(wants|takes) (TLS|a token|tokens|folders|no folders)\b", "require, accept"),
    (r"\bbehind (each|every|the last) (document|text|token|contribution)\b", "after"),
    (r"\bspeaks? (plaintext|no gRPC)\b", "use"),
    (r"\bmade if it\b", "created if it does not exist"),
)]
# What users read. In folders: each page.
PROSE = ("README.md", "ARCHITECTURE.md", "docs/*.md", "docs/*/*.md", "docs/design/decisions/*.md", "deploy/README.md",
         "deploy/prometheus/rules/longhaul.yaml",
         "deploy/grafana/dashboards/operator.json", "deploy/grafana/dashboards/researcher.json", "coordinator/service/page/index.html")
LITERAL = re.compile(r'//[^\n]*|R"(\w*)\((?P<raw>.*?)\)\1"|"(?P<text>(?:\\.|[^"\\\n])*)"|\'(?:\\.|[^\'\\])\'', re.DOTALL)


def literals(text):
    """(line, value) of the string literals of a C++ source. Adjacent ones are one."""
    end, joined = None, []
    for match in LITERAL.finditer(text):
        value = match["text"] if match["text"] is not None else match["raw"]
        if value is None:
            continue
        if joined and not text[end:match.start()].strip():
            joined[-1][1] += value
        else:
            joined.append([text.count("\n", 0, match.start()) + 1, value])
        end = match.end()
    return joined


def check_words(line, words):
    for pattern, instead in TRANSLATED:
        found = pattern.search(words)
        if found is not None:
            yield f"line {line} says '{found[0].strip()}' to users: write '{instead}' (CONTRIBUTING.md, Words of messages)"


def check_messages(text):
    for line, words in literals(text):
        if " " in words:
            yield from check_words(line, words)


def check_prose(text):
    for line, words in enumerate(text.splitlines(), 1):
        yield from check_words(line, words)


def check_types(headers):
    """Two types of one name break a program that links both without a word from compiler or linker."""
    homes = {}
    for path, text in headers:
        for name in types_of(text):
            homes.setdefault(name, []).append(path)
    for name, paths in homes.items():
        if len(paths) > 1:
            yield f"{name} is defined in {' and in '.join(paths)}"


def check_test_list(text):
    if len(re.findall(r"^\s*longhaul_test\(", text, re.MULTILINE)) > 1:
        yield "links several test programs; a folder has one (longhaul_test_apart runs a part of it on its own)"


def main():
    root = pathlib.Path(sys.argv[1])
    problems, headers = [], []
    count = 0
    for top in ("common", "coordinator", "worker", "tests"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in (".h", ".cc", ".cu"):
                continue
            count += 1
            name = str(path.relative_to(root))
            text = path.read_text(encoding="utf-8")
            problems += [f"{name}: {problem}" for check in (check_text, check_columns) for problem in check(name, text)]
            if name.startswith("coordinator/service/"):
                problems += [f"{name}: {problem}" for problem in check_handlers(text)]
            if top != "tests":
                problems += [f"{name}: {problem}" for problem in [*check_includes(name, text), *check_messages(text)]]
                if path.suffix == ".h":
                    headers.append((name, text))
    for path in sorted((root / "proto").rglob("*.proto")):
        name = str(path.relative_to(root))
        problems += [f"{name}: {problem}" for problem in check_columns(name, path.read_text(encoding="utf-8"))]
    for pattern in PROSE:
        pages = sorted(root.glob(pattern))
        problems += [] if pages else [f"{pattern}: there is no such document"]
        for path in pages:
            problems += [f"{path.relative_to(root)}: {problem}" for problem in check_prose(path.read_text(encoding="utf-8"))]
    problems += check_types(headers)
    problems += check_bounds(lambda name: (root / name).read_text(encoding="utf-8"))
    problems += check_raw_methods((root / "coordinator/access/methods.cc").read_text(encoding="utf-8"),
                                  [path.read_text(encoding="utf-8") for path in sorted((root / "coordinator/service").glob("*.h"))])
    sys.path.insert(0, str(root / "tests/benchmark"))
    import figures

    history = figures.History(root)
    problems += figures.problems(root, history)
    for pattern in ("*.md", "docs/**/*.md", "tests/**/*.md"):
        for path in sorted(root.glob(pattern)):
            unknown = {word for word in figures.HASH.findall(path.read_text(encoding="utf-8")) if word != "ed25519" and not history.knows(word)}
            problems += [f"{path.relative_to(root)}: git does not know the commit {word}" for word in sorted(unknown)]
    ignored = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--ignored", "--exclude-standard"], capture_output=True, text=True, check=False)
    problems += [f"{name}: is committed, and .gitignore leaves it out" for name in ignored.stdout.splitlines()]
    for path in sorted((root / "tests").rglob("CMakeLists.txt")):
        problems += [f"{path.relative_to(root)}: {problem}" for problem in check_test_list(path.read_text(encoding="utf-8"))]
    print("\n".join(problems) or f"{count} files are tidy")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
