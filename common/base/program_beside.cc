#include "common/base/program_beside.h"

#include <sys/auxv.h>

#include <filesystem>
#include <system_error>

namespace longhaul {

std::string FolderOfProgram() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) return self.parent_path().string();
  // Without /proc: the path by which it was started.
  const auto* const started = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  return started == nullptr ? std::string() : std::filesystem::path(started).parent_path().string();
}

std::string ProgramBeside(const std::string& name) {
  const std::string folder = FolderOfProgram();
  return folder.empty() ? name : folder + "/" + name;
}

}  // namespace longhaul
