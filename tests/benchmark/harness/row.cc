#include "tests/benchmark/harness/row.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

namespace longhaul::benchmark {

void Print(const Row& row) {
  nlohmann::ordered_json json = {
      {"name", row.name}, {"ours", row.ours}, {"reference", row.reference}, {"ratio", row.ratio}};
  json["target"] = row.target ? nlohmann::ordered_json(*row.target) : nlohmann::ordered_json();
  json["unit"] = row.unit;
  json["note"] = row.note;
  std::cout << json.dump() << std::endl;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

double Seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Pair Alternate(int repetitions, const std::function<void()>& ours,
               const std::function<void()>& reference) {
  std::vector<double> a, b;
  for (int i = 0; i < repetitions; ++i) {
    a.push_back(Seconds(ours));
    b.push_back(Seconds(reference));
  }
  return {Median(a), Median(b)};
}

}  // namespace longhaul::benchmark
