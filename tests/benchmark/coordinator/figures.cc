#include "tests/benchmark/coordinator/figures.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>

namespace longhaul::benchmark {

void OrEnd(const absl::Status& status, absl::string_view what) {
  if (status.ok()) return;
  std::cerr << what << ": " << status << std::endl;
  std::_Exit(1);
}

int64_t ResidentBytes(bool trim) {
  if (trim) malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

double Quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  const auto at =
      std::min(values.size() - 1, static_cast<size_t>(part * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(at), values.end());
  return values[at];
}

}  // namespace longhaul::benchmark
