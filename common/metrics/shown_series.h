// Series that are shown again in each interval, such as those of the pools of a report. A series
// that is not shown again ends.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "common/metrics/registry.h"

namespace longhaul {

// Externally synchronised. The families outlive it.
class ShownSeries {
 public:
  // Shows and returns the series. The reference is valid at least until the next Sweep but one.
  template <typename Metric>
  Metric& Show(MetricFamily<Metric>& family, const MetricLabels& labels) {
    Entry& entry = entries_[{&family, labels}];
    entry.shown = true;
    if (!entry.remove) entry.remove = [&family, labels] { family.Remove(labels); };
    return family.With(labels);
  }

  // Ends series that were not shown since the last Sweep.
  void Sweep() {
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      if (std::exchange(entry->second.shown, false)) {
        ++entry;
      } else {
        entry->second.remove();
        entry = entries_.erase(entry);
      }
    }
  }
  // Ends all series.
  void Clear() {
    for (auto& [key, entry] : entries_) entry.remove();
    entries_.clear();
  }

 private:
  struct Entry {
    bool shown = false;
    std::function<void()> remove;
  };
  std::map<std::pair<const void*, MetricLabels>, Entry> entries_;
};

}  // namespace longhaul
