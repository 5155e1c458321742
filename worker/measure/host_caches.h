// The caches of this machine's processors, as the system says.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

// Bytes of the first, second and third cache for data that so many threads, each on a processor of
// its own, have together; fewer if there are fewer. Empty: the system does not say. `root`: the
// path of the system's root, for tests.
std::vector<double> HostCaches(int threads, const std::string& root = "");

}  // namespace longhaul
