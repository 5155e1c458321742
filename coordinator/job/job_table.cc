#include "coordinator/job/job_table.h"

#include <utility>

namespace longhaul {

Job* JobTable::Add(Job job) {
  if (!by_id_.emplace(job.id, jobs_.size()).second) return nullptr;
  return &jobs_.emplace_back(std::move(job));
}

Job* JobTable::Find(std::string_view id) {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &jobs_[it->second];
}

const Job* JobTable::Find(std::string_view id) const {
  return const_cast<JobTable*>(this)->Find(id);
}

}  // namespace longhaul
