// What every Replica of one rank promises. An implementation instantiates ReplicaSuite with a maker
// of equal replicas.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/replica/replica.h"

namespace longhaul {

struct ReplicaMaker {
  std::string name;
  std::function<std::unique_ptr<Replica>()> make;
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
};

}  // namespace longhaul
