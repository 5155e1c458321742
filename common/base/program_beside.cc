#include "common/base/program_beside.h"

#include <filesystem>
#include <system_error>

namespace longhaul {

std::string FolderOfProgram() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string() : self.parent_path().string();
}

std::string ProgramBeside(const std::string& name) {
  const std::string folder = FolderOfProgram();
  return folder.empty() ? name : folder + "/" + name;
}

}  // namespace longhaul
