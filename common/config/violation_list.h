// Collects the mistakes of a document while it is checked, so that all are reported at once.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/config/spec_violation.h"

namespace longhaul {

class ViolationList {
 public:
  void Invalid(std::string field, std::string description, std::string hint = "") {
    violations_.push_back({std::move(field), std::move(description), std::move(hint), false});
  }
  void NotBuilt(std::string field, std::string description, std::string hint) {
    violations_.push_back({std::move(field), std::move(description), std::move(hint), true});
  }
  bool empty() const { return violations_.empty(); }
  const std::vector<SpecViolation>& all() const { return violations_; }

 private:
  std::vector<SpecViolation> violations_;
};

}  // namespace longhaul
