// Finds Longhaul's programs and modules. They are in the folder of the program that starts or loads
// them.
#pragma once

#include <string>

namespace longhaul {

// The folder of the running program, or empty if the system does not tell. Thread-safe.
std::string FolderOfProgram();

// The path of `name` in that folder. If the folder is not known it is only the name, which PATH
// resolves.
std::string ProgramBeside(const std::string& name);

}  // namespace longhaul
