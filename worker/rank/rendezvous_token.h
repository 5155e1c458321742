// How the agent hands the secret of the in-pool rendezvous to its ranks: in the environment, since
// arguments can be read by every user of the machine.
#pragma once

namespace longhaul {

inline constexpr char kRendezvousTokenVariable[] = "LONGHAUL_RENDEZVOUS_TOKEN";

}  // namespace longhaul
