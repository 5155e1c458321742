// The environment variable with which the agent gives the secret of the in-pool rendezvous to its
// ranks. Arguments would be visible to every user of the machine.
#pragma once

namespace longhaul {

inline constexpr char kRendezvousTokenVariable[] = "LONGHAUL_RENDEZVOUS_TOKEN";

}  // namespace longhaul
