#include "common/device/cuda_module.h"

#include <dlfcn.h>

#include <type_traits>
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

// Of the driver's library.
struct Driver {
  int (*get_count)(int* count);
  int (*get)(int* device, int index);
  int (*get_name)(char* name, int size, int device);

  static absl::StatusOr<Driver> Open() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      return absl::FailedPreconditionError(
          absl::StrCat("no CUDA device: no driver (", dlerror(), ")"));
    const auto find = [&](const char* symbol, auto& function) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, symbol));
      return function != nullptr;
    };
    int (*init)(unsigned flags);
    Driver driver;
    if (!find("cuInit", init) || !find("cuDeviceGetCount", driver.get_count) ||
        !find("cuDeviceGet", driver.get) || !find("cuDeviceGetName", driver.get_name)) {
      return absl::FailedPreconditionError("no CUDA device: libcuda.so.1 is not a CUDA driver");
    }
    if (const int error = init(0); error != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("no CUDA device: the driver answers error ", error));
    }
    return driver;
  }
};

}  // namespace

absl::StatusOr<int> CudaDeviceCount() {
  LH_ASSIGN_OR_RETURN(const Driver driver, Driver::Open());
  int count = 0;
  if (driver.get_count(&count) != 0 || count == 0) {
    return absl::FailedPreconditionError("no CUDA device: the driver sees none");
  }
  return count;
}

absl::StatusOr<std::string> CudaDeviceName(int index) {
  LH_ASSIGN_OR_RETURN(const Driver driver, Driver::Open());
  int device = 0;
  char name[256] = {};
  if (driver.get(&device, index) != 0 || driver.get_name(name, sizeof(name) - 1, device) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no CUDA device ", index, ": the driver does not name it"));
  }
  return std::string(name);
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
