#include "worker/data/python_tokenizer.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/digest.h"
#include "common/io/file_content.h"
#include "common/io/read_only_file.h"

namespace longhaul {
namespace {

// As `python3 -m longhaul.tokenize`, which would first look for modules in the current folder: that
// may be one of data or of a model, from somebody else.
constexpr char kHfProgram[] =
    "import runpy, sys\n"
    "sys.path[:1] = filter(None, sys.path[:1])\n"
    "try:\n"
    "  runpy.run_module('longhaul.tokenize', run_name='__main__', alter_sys=True)\n"
    "except ImportError as error:\n"
    "  sys.exit(f'python3: {error}')\n";

}  // namespace

absl::StatusOr<std::string> DigestOfPresentFile(const std::string& path) {
  LH_ASSIGN_OR_RETURN(const ReadOnlyFile file, ReadOnlyFile::Open(path));
  std::string head(std::min<int64_t>(file.size(), kContentHeadBytes), '\0');
  LH_RETURN_IF_ERROR(file.Read(0, {reinterpret_cast<uint8_t*>(head.data()), head.size()}));
  LH_RETURN_IF_ERROR(CheckPresent(path, head));
  LH_ASSIGN_OR_RETURN(const Digest128 digest, DigestOfFile(file));
  return digest.Hex();
}

std::vector<std::string> PythonTokenizerCommand(const std::string& path, int threads) {
  return {"python3",     "-c", kHfProgram,  "--pipe",
          "--tokenizer", path, "--threads", absl::StrCat(std::max(1, threads))};
}

std::string HowToInstallPythonTokenizer(absl::string_view extra) {
  return absl::StrCat("pip install 'longhaul-client[", extra,
                      "]' (in the sources: './deploy/python[", extra, "]'), with python3 in PATH");
}

absl::StatusOr<TokenizerProcess> StartPythonTokenizer(const std::string& path,
                                                      const std::vector<std::string>& command,
                                                      absl::string_view extra,
                                                      TokenizerProcess::Greeting& greeting) {
  const std::string next =
      absl::StrCat("; it needs Python's longhaul: ", HowToInstallPythonTokenizer(extra));
  absl::StatusOr<TokenizerProcess> process = TokenizerProcess::Start(command, "longhaul.tokenize");
  if (!process.ok())
    return absl::NotFoundError(absl::StrCat(path, ": ", process.status().message(), next));
  const absl::StatusOr<TokenizerProcess::Greeting> greeted = process->Greet();
  if (absl::IsInvalidArgument(greeted.status())) return greeted.status();
  if (!greeted.ok()) {
    // Python has said on standard error what it lacks.
    return absl::NotFoundError(
        absl::StrCat(path, ": python3 -m longhaul.tokenize did not start", next));
  }
  greeting = *greeted;
  return process;
}

}  // namespace longhaul
