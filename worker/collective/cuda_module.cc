#include "worker/collective/cuda_module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

constexpr char kModule[] = "liblonghaul_cuda_collective.so";

std::vector<std::string> CandidateFolders(const std::string& folder) {
  if (!folder.empty()) return {folder};
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0) return {};
  const std::string program(path, length);
  const std::string own = program.substr(0, program.rfind('/'));
  return {own, absl::StrCat(own, "/../lib")};
}

// Never unloaded: CUDA keeps state of the process in it.
absl::StatusOr<void*> LoadModule(const std::string& folder) {
  std::string errors;
  for (const std::string& candidate : CandidateFolders(folder)) {
    if (void* module = dlopen(absl::StrCat(candidate, "/", kModule).c_str(), RTLD_NOW | RTLD_LOCAL))
      return module;
    absl::StrAppend(&errors, errors.empty() ? "" : "; ", dlerror());
  }
  return absl::FailedPreconditionError(absl::StrCat("cannot load ", kModule, ": ", errors));
}

}  // namespace

absl::StatusOr<int> CudaDeviceCount() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr)
    return absl::FailedPreconditionError(
        absl::StrCat("no CUDA device: no driver (", dlerror(), ")"));
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto get_count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  if (init == nullptr || get_count == nullptr) {
    return absl::FailedPreconditionError("no CUDA device: libcuda.so.1 is not a CUDA driver");
  }
  int count = 0;
  if (const int error = init(0); error != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no CUDA device: the driver answers error ", error));
  }
  if (get_count(&count) != 0 || count == 0) {
    return absl::FailedPreconditionError("no CUDA device: the driver sees none");
  }
  return count;
}

absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicatorFromModule(
    const NcclCommunicatorOptions& options, const std::string& folder) {
  LH_RETURN_IF_ERROR(CudaDeviceCount().status());
  LH_ASSIGN_OR_RETURN(void* module, LoadModule(folder));
  const auto make =
      reinterpret_cast<LonghaulMakeNcclCommunicator*>(dlsym(module, kLonghaulMakeNcclCommunicator));
  if (make == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(kModule, " has no ", kLonghaulMakeNcclCommunicator));
  }
  return make(options);
}

}  // namespace longhaul
