#include "tests/simulation/pool.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace longhaul::simulation {

Pool::Pool(World* world, CoordinatorNode* coordinator, const PoolOptions& options)
    : world_(world), options_(options), site_(world, options.name) {
  const int machines = options.nodes + (options.spare ? 1 : 0);
  const int bad = static_cast<int>(world->random.Below(machines));
  // Each rank owns a word at least, whichever machines there are.
  int left = kWords - options.nodes;
  for (int i = 0; i < machines; ++i) {
    const bool spare = i == options.nodes;
    const int more = spare || left == 0 ? 0 : static_cast<int>(world->random.Below(2));
    left -= more;
    ranks_.push_back(1 + more);
    AgentOptions agent{.pool = options.name,
                       .nodes = options.nodes,
                       .machine = options.first_machine + i,
                       .ranks = ranks_.back(),
                       .step_takes = options.step_takes,
                       .misconfigured = options.misconfigured && i == bad,
                       .earlier = options.earlier,
                       .prepare_more = options.prepare_more};
    const int number = spare ? options.nodes - 1 : i;
    const bool fixed = options.numbers == PoolOptions::Numbers::kFixed ||
                       (options.numbers == PoolOptions::Numbers::kMixed && number > 0);
    if (options.nodes > 1 && fixed) agent.node = number;
    agents_.push_back(std::make_unique<AgentNode>(world, coordinator, &site_, std::move(agent)));
  }
}

std::vector<AgentNode*> Pool::agents() const {
  std::vector<AgentNode*> agents;
  for (const auto& agent : agents_) agents.push_back(agent.get());
  return agents;
}

AgentNode* Pool::OtherThan(const AgentNode* agent) const {
  const size_t some = world_->random.Below(agents_.size() - 1);
  const auto& other = agents_[some];
  return other.get() == agent ? agents_.back().get() : other.get();
}

bool Pool::whole() const {
  if (!several() || gone_) return true;
  std::map<std::string, std::set<int>> numbers;  // By group.
  for (const auto& agent : agents_) {
    if (!agent->group().empty()) numbers[agent->group()].insert(agent->node());
  }
  return numbers.size() == 1 && static_cast<int>(numbers.begin()->second.size()) == options_.nodes;
}

void Pool::LeaveForGood() {
  gone_ = true;
  for (const auto& agent : agents_) agent->Leave();
}

void Pool::CrashAll(absl::Duration time) {
  for (const auto& agent : agents_) {
    if (!agent->up()) continue;
    agent->Crash();
    world_->loop.After(several() ? time * world_->random.Uniform() : time,
                       [p = agent.get()] { p->Start(); });
  }
}

std::string Pool::Describe() const {
  static constexpr const char* kNumbers[] = {"", " numbered", " but one numbered"};
  std::string text = absl::StrCat(options_.name, ":", absl::StrJoin(ranks_, "+"));
  if (several()) absl::StrAppend(&text, kNumbers[static_cast<int>(options_.numbers)]);
  if (options_.spare) absl::StrAppend(&text, " one spare");
  return text;
}

}  // namespace longhaul::simulation
