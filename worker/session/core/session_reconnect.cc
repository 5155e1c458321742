// The second and later plans: pulls and pushes that were lost with the connection are begun again.
#include "absl/strings/str_format.h"
#include "worker/session/core/session.h"

namespace longhaul::session {

void Session::Resume(const Plan& plan, Actions& out) {
  if (plan.start_step != plan_.start_step || plan.ordinal != plan_.ordinal ||
      plan.fragments.size() != fragments_.size()) {
    return End(Restart{"the coordinator gave this pool another place"}, out);
  }
  seed_asked_ = plan.seed;
  for (int i = 0; i < static_cast<int>(fragments_.size()) && state_ != SessionState::kEnded; ++i) {
    ResumeFragment(i, plan.fragments[i], out);
  }
  if (state_ != SessionState::kStarting) return;
  AskSeed(out);
  AskWhole(out);
}

void Session::ResumeFragment(int index, const FragmentPlan& plan, Actions& out) {
  Fragment& fragment = fragments_[index];
  if (plan.newest.version < fragment.newest.version || plan.newest.version < fragment.held) {
    return End(
        Restart{absl::StrFormat("fragment %d: the coordinator has version %d, it had %d before",
                                index, plan.newest.version, fragment.newest.version)},
        out);
  }
  LearnCall(index, plan.newest.version + (plan.called ? 1 : 0));
  if (plan.newest.version == fragment.held && fragment.pushed) {
    fragment.sent = plan.contributed;
    if (!fragment.sent) out.push_back(PushAgain{index, fragment.held + 1});
  }
  Learn(index, plan.newest, out);
}

}  // namespace longhaul::session
