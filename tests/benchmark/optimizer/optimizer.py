"""Runs optimizer_benchmark against DeepSpeed's CPUAdam: compiles its C++ kernel out of the pinned source package as DeepSpeed
does (-O3 -march=native, OpenMP; cached) against the build's libtorch, and hands it over.

  optimizer.py BUILD_DIR [ARGUMENTS of optimizer_benchmark...]
"""
import hashlib
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

PACKAGE = "deepspeed==0.19.8"
ROOT = pathlib.Path(__file__).resolve().parents[3]
# Of what torch/extension.h has, the kernel needs tensors alone.
EXTENSION = "#include <torch/types.h>\n"
INTERFACE = """#include "cpu_adam.h"
extern "C" {
int longhaul_create_adam(int id, float lr, float b1, float b2, float eps, float decay, bool adamw, bool log) {
  return create_adam_optimizer(id, lr, b1, b2, eps, decay, adamw, log);
}
int longhaul_adam_step(int id, size_t step, float lr, float b1, float b2, float eps, float decay, bool bias, torch::Tensor& p,
                       torch::Tensor& g, torch::Tensor& m, torch::Tensor& v) {
  return ds_adam_step(id, step, lr, b1, b2, eps, decay, bias, p, g, m, v);
}
// The same on float32 memory, for callers without tensors.
int longhaul_adam_step_floats(int id, size_t step, float lr, float b1, float b2, float eps, float decay, bool bias, int64_t size,
                              float* p, float* g, float* m, float* v) {
  torch::Tensor tensors[] = {torch::from_blob(p, {size}), torch::from_blob(g, {size}), torch::from_blob(m, {size}),
                             torch::from_blob(v, {size})};
  return ds_adam_step(id, step, lr, b1, b2, eps, decay, bias, tensors[0], tensors[1], tensors[2], tensors[3]);
}
}
"""


def venv():
    return pathlib.Path(subprocess.run([ROOT / "deploy/setup.sh", "--print-venv"], check=True, stdout=subprocess.PIPE,
                                       text=True).stdout.strip())


def vector_flags():
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    return ["-D__AVX512__"] if "avx512f" in flags else ["-D__AVX256__"] if "avx2" in flags else []


def cpu_name():
    return next((line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")


def build(folder, target):
    environment = venv()
    subprocess.run([environment / "bin/python", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                    "--no-binary", ":all:", "--dest", folder, PACKAGE], check=True, stdout=sys.stderr)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder)
    csrc = next(folder.glob("*/csrc"))
    (folder / "torch").mkdir()
    (folder / "torch/extension.h").write_text(EXTENSION)
    (folder / "interface.cpp").write_text(INTERFACE)
    torch = next(environment.glob("lib/python3*/site-packages/torch"))
    subprocess.run(["g++", "-std=c++20", "-O3", "-march=native", "-fopenmp", "-fPIC", "-shared", "-w", *vector_flags(),
                    f"-I{folder}", f"-I{csrc}/includes", f"-I{torch}/include",
                    f"-I{torch}/include/torch/csrc/api/include", folder / "interface.cpp",
                    csrc / "adam/cpu_adam_impl.cpp", "-o", target, f"-L{torch}/lib", "-ltorch_cpu", "-lc10",
                    f"-Wl,-rpath,{torch}/lib"], check=True)


def library():
    """The compiled kernel."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "longhaul" / PACKAGE
    # -march=native is of one machine.
    made_of = f"{INTERFACE}{EXTENSION}{venv()}{vector_flags()}{cpu_name()}"
    path = cache / f"libcpu_adam-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}.so"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            building = pathlib.Path(tempfile.mkdtemp(dir=cache)) / "building.so"
            build(pathlib.Path(folder), building)
        building.rename(path)
        building.parent.rmdir()
    return path


if __name__ == "__main__":
    sys.exit(subprocess.run([f"{sys.argv[1]}/benchmark/optimizer_benchmark", "--deepspeed", library(), *sys.argv[2:]],
                            env=dict(os.environ, OMP_WAIT_POLICY="passive")).returncode)
