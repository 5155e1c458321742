// Each kernel's share of what one core allows, with one instruction set (kernels.py runs it with
// each).
//   kernels_benchmark [--instructions SET] [--only TEXT] [--smoke]
//   kernels_benchmark --list: prints the sets that this CPU has, the least first
#include <iostream>
#include <vector>

#include "ATen/Parallel.h"
#include "tests/benchmark/harness/flags.h"
#include "tests/benchmark/harness/instructions.h"
#include "tests/benchmark/kernels/kernels.h"

namespace longhaul::benchmark {
namespace {

int Main(int argc, char** argv) {
  std::vector<std::string> names;
  for (const InstructionSet& set : InstructionSets()) names.push_back(set.name);
  std::string instructions = names.empty() ? "" : names.back(), only;
  bool smoke = false, list = false;
  if (const auto status = ReadFlags("Each kernel's share of what one core allows.", argc, argv,
                                    {{"--instructions", &instructions, "Instruction set", names},
                                     {"--only", &only, "Only rows whose names contain this"},
                                     {"--list", &list, "Print the instruction sets of this CPU"},
                                     {"--smoke", &smoke, "Small and quick: shows that it runs"}})) {
    return *status;
  }
  if (list) {
    for (const std::string& name : names) std::cout << name << std::endl;
    return 0;
  }
  if (!names.empty()) UseInstructions(instructions);
  at::set_num_threads(1);
  KernelTable table({.instructions = instructions,
                     .only = only,
                     .seconds = smoke ? 0 : 0.25,
                     .megabytes = smoke ? 1 : 64});
  AddProductKernels(table, smoke ? 96 : 4096);
  AddLayerKernels(table);
  AddExchangeKernels(table);
  return 0;
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) { return longhaul::benchmark::Main(argc, argv); }
