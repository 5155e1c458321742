// Programs and modules of ours lie in the folder of the one that starts or loads them.
#pragma once

#include <string>

namespace longhaul {

// The folder of the running program; empty where the system does not tell. Thread-safe.
std::string FolderOfProgram();

// The path of `name` in that folder; the name alone, which PATH resolves, where it is not known.
std::string ProgramBeside(const std::string& name);

}  // namespace longhaul
