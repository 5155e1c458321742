#include "common/device/cuda_module.h"

#include <dlfcn.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/program_beside.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

std::vector<std::string> CandidateFolders(const std::string& folder) {
  if (!folder.empty()) return {folder};
  const std::string own = FolderOfProgram();
  if (own.empty()) return {};
  return {own, absl::StrCat(own, "/../lib")};
}

absl::StatusOr<void*> LoadModule(const std::string& file, const std::string& folder) {
  std::string errors;
  for (const std::string& candidate : CandidateFolders(folder)) {
    if (void* module = dlopen(absl::StrCat(candidate, "/", file).c_str(), RTLD_NOW | RTLD_LOCAL))
      return module;
    absl::StrAppend(&errors, errors.empty() ? "" : "; ", dlerror());
  }
  return absl::FailedPreconditionError(absl::StrCat("cannot load ", file, ": ", errors));
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

absl::StatusOr<void*> LoadCudaFunction(const std::string& name, const char* symbol,
                                       const std::string& folder) {
  LH_RETURN_IF_ERROR(CudaDeviceCount().status());
  const std::string file = absl::StrCat("lib", name, ".so");
  LH_ASSIGN_OR_RETURN(void* module, LoadModule(file, folder));
  void* const function = dlsym(module, symbol);
  if (function == nullptr)
    return absl::FailedPreconditionError(absl::StrCat(file, " has no ", symbol));
  return function;
}

}  // namespace longhaul
