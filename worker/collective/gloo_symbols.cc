#include "worker/collective/gloo_symbols.h"

#include <dlfcn.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace longhaul {
namespace {

// Looked up by name, as the dynamic linker resolves them for every caller. A function pointer taken
// here could be this program's own stub.
constexpr const char* kSymbols[] = {
    "_ZN4gloo9allreduceERKNS_16AllreduceOptionsE",
    "_ZN4gloo9transport3tcp12CreateDeviceERKNS1_4attrE",
    "_ZN4gloo7Context10setTimeoutENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE",
};

}  // namespace

absl::Status CheckGlooSymbols() {
  for (const char* symbol : kSymbols) {
    void* address = dlsym(RTLD_DEFAULT, symbol);
    Dl_info info{};
    if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("libgloo is not loaded: no symbol ", symbol));
    }
    absl::string_view library = info.dli_fname;
    // npos + 1 is 0.
    library.remove_prefix(library.rfind('/') + 1);
    if (!absl::StartsWith(library, "libgloo.so")) {
      return absl::FailedPreconditionError(
          absl::StrCat(symbol, " resolves to ", info.dli_fname,
                       " instead of libgloo: link the program with libgloo first"));
    }
  }
  return absl::OkStatus();
}

}  // namespace longhaul
