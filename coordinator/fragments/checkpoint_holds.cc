#include "coordinator/fragments/checkpoint_holds.h"

namespace longhaul::coordinator {

std::shared_ptr<const void> CheckpointHolds::Hold(const std::string& job, int64_t step) {
  absl::MutexLock lock(&mutex_);
  ++held_[{job, step}].holders;
  return std::shared_ptr<const void>(this, [this, job, step](const void*) { LetGo(job, step); });
}

void CheckpointHolds::LetGo(const std::string& job, int64_t step) {
  absl::MutexLock lock(&mutex_);
  Reading& reading = held_[{job, step}];
  --reading.holders;
  reading.until = now_() + kLinger;
}

std::set<int64_t> CheckpointHolds::Held(const std::string& job) {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = now_();
  std::erase_if(held_, [now](const auto& entry) {
    return entry.second.holders == 0 && entry.second.until <= now;
  });
  std::set<int64_t> steps;
  for (const auto& [checkpoint, reading] : held_)
    if (checkpoint.first == job) steps.insert(checkpoint.second);
  return steps;
}

}  // namespace longhaul::coordinator
