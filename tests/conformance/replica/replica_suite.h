// What every Replica of one rank promises. An implementation instantiates ReplicaSuite with a maker
// of equal replicas.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "worker/replica/replica.h"

namespace longhaul {

struct ReplicaMaker {
  std::string name;
  std::function<std::unique_ptr<Replica>()> make;
  // Steps depend on examples.
  bool has_data = true;
};

class ReplicaSuite : public testing::TestWithParam<ReplicaMaker> {
 protected:
  // By unit.
  using Parameters = std::vector<std::vector<float>>;

  std::unique_ptr<Replica> Make() const { return GetParam().make(); }
  static Parameters ReadAll(Replica& replica) {
    Parameters units;
    for (size_t unit = 0; unit < replica.layout().units.size(); ++unit) {
      units.emplace_back(replica.layout().units[unit].elements);
      EXPECT_TRUE(replica.Read(static_cast<int>(unit), 0, absl::MakeSpan(units.back())).ok());
    }
    return units;
  }
  static void WriteAll(const Parameters& units, Replica& replica) {
    for (size_t unit = 0; unit < units.size(); ++unit)
      ASSERT_TRUE(replica.Write(static_cast<int>(unit), 0, units[unit]).ok());
    std::vector<int> all(units.size());
    std::iota(all.begin(), all.end(), 0);
    ASSERT_TRUE(replica.Publish(all).ok());
  }
};

}  // namespace longhaul
