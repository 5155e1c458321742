"""Makes the wheels of a release, except that of the client (deploy/python), of programs that `cmake --install` has
installed.

    wheels.py STAGE OUT          STAGE: components longhaul, longhaul-worker, cuda and bundled below one prefix

longhaul-programs has the programs, Debian's libraries that they load, and the CUDA modules. libtorch is what pip
brings beside it: `longhaul-cuda` is this and torch's wheel, which has CUDA on Linux; `longhaul-cpu` is this and
libtorch for CPUs, since PyPI has no torch without CUDA. The name `longhaul` is another project's there.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = (ROOT / "VERSION").read_text().strip()
TORCH = re.search(r"^torch==(\S+)", (ROOT / "deploy/requirements.txt").read_text(), re.MULTILINE)[1]
# glibc of the first distribution with a libstdc++ of GCC 12 (GLIBCXX_3.4.30), which Debian's libraries need.
PLATFORM = "manylinux_2_35_x86_64"
PROGRAMS = ["longhaul", "longhaul-coordinator", "longhaul-lm", "longhaul-worker"]
LIBTORCH = ["libtorch_cpu.so", "libc10.so", "libgomp.so.1", "libcudart.so.13", "libcupti.so.13"]
# Where longhaul-rank looks for libtorch: that of longhaul-cpu, and that of torch.
LIBTORCH_PATH = "$ORIGIN/../lib/longhaul:$ORIGIN/../../longhaul_libtorch/lib:$ORIGIN/../../torch/lib"

METADATA = """Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: {summary}
Author: The Longhaul authors
Keywords: distributed training,DiLoCo,language models
Classifier: Development Status :: 4 - Beta
Classifier: Intended Audience :: Science/Research
Classifier: Operating System :: POSIX :: Linux
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
License-Expression: {license}
Requires-Python: >=3.10
Description-Content-Type: text/markdown
{more}
{description}
"""


def pack(out, name, summary, description, requires, files, licenses, platform, license_expression="MIT"):
    """`files`: path in site-packages -> source file. `licenses`: file name -> source file."""
    with tempfile.TemporaryDirectory() as work:
        info = pathlib.Path(work, f"{name.replace('-', '_')}-{VERSION}.dist-info")
        (info / "licenses").mkdir(parents=True)
        for target, source in {
            **files,
            **{f"{info.name}/licenses/{target}": source for target, source in licenses.items()},
        }.items():
            path = pathlib.Path(work, target)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, path)
        more = [
            *(f"License-File: {path}" for path in sorted(licenses)),
            *(f"Requires-Dist: {word}" for word in requires),
        ]
        (info / "METADATA").write_text(
            METADATA.format(
                name=name,
                version=VERSION,
                summary=summary,
                description=description,
                license=license_expression,
                more="".join(f"{line}\n" for line in more),
            )
        )
        pure = platform == "any"
        (info / "WHEEL").write_text(
            f"Wheel-Version: 1.0\nGenerator: longhaul ({VERSION})\nRoot-Is-Purelib: {str(pure).lower()}\n"
            f"Tag: py3-none-{platform}\n"
        )
        if name == "longhaul-programs":
            scripts = "".join(f"{program} = longhaul_programs:{program.replace('-', '_')}\n" for program in PROGRAMS)
            (info / "entry_points.txt").write_text(f"[console_scripts]\n{scripts}")
        for path in pathlib.Path(work).rglob("*"):  # Whatever the umask is.
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        subprocess.run([sys.executable, "-m", "wheel", "pack", "-d", out, work], check=True, stdout=subprocess.DEVNULL)


def main():
    stage, out = map(pathlib.Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    licenses = {"LICENSE": ROOT / "LICENSE"}
    of_libraries = stage / "share/doc/longhaul/libraries"
    of_torch = stage / "share/doc/longhaul-worker"
    with tempfile.TemporaryDirectory() as work:
        start = pathlib.Path(work, "__init__.py")
        start.write_text((ROOT / "deploy/release/longhaul_programs.py").read_text().replace("@TORCH@", TORCH))
        files = {"longhaul_programs/__init__.py": start}
        for path in sorted((stage / "bin").iterdir()):
            copy = pathlib.Path(work, path.name)
            shutil.copy(path, copy)
            if path.name in ("longhaul-rank", "longhaul-lm"):
                subprocess.run(["patchelf", "--force-rpath", "--set-rpath", LIBTORCH_PATH, copy], check=True)
            files[f"longhaul_programs/bin/{path.name}"] = copy
        files |= {
            f"longhaul_programs/lib/longhaul/{path.name}": path
            for path in sorted((stage / "lib/longhaul").iterdir())
            if path.name not in LIBTORCH
        }
        files |= {f"longhaul_programs/lib/{path.name}": path for path in sorted((stage / "lib").glob("*.so"))}
        pack(
            out,
            "longhaul-programs",
            "The programs of Longhaul, which trains one language model on several sites",
            "The programs without libtorch: enough for a coordinator and the command line. To train, install "
            "`longhaul-cuda` (for NVIDIA GPUs, and CPUs) or "
            "`longhaul-cpu`.\n\nThe libraries in lib/longhaul are Debian's, unchanged; licenses/LIBRARIES has the "
            "package, version and source of each.",
            [f"longhaul-client=={VERSION}"],
            files,
            {**licenses, **{path.name: path for path in of_libraries.iterdir()}},
            PLATFORM,
        )
    pack(
        out,
        "longhaul-cuda",
        "Trains one language model on several sites joined by ordinary internet links",
        "Installs the programs of Longhaul, its Python client, and torch with CUDA (5 GB). `longhaul-cpu` "
        "does so without CUDA.",
        [f"longhaul-programs=={VERSION}", f"torch=={TORCH}"],
        {},
        licenses,
        "any",
    )
    pack(
        out,
        "longhaul-cpu",
        "Trains one language model on several sites joined by ordinary internet links, without GPUs",
        f"Installs the programs of Longhaul, its Python client, and libtorch {TORCH} for CPUs, which is that "
        "of torch's wheel without what needs a GPU.",
        [f"longhaul-programs=={VERSION}"],
        {f"longhaul_libtorch/lib/{name}": stage / "lib/longhaul" / name for name in LIBTORCH},
        {**licenses, **{path.name: path for path in of_torch.iterdir() if path.name.startswith(("torch", "nvidia"))}},
        PLATFORM,
        "MIT AND BSD-3-Clause AND LicenseRef-NVIDIA-CUDA-EULA",
    )


if __name__ == "__main__":
    main()
