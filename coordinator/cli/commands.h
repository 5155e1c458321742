// The commands. Each blocks until it is done, and returns an Outcome. Messages to people meanwhile
// go to environment.err.
#pragma once

#include <optional>

#include "coordinator/cli/client.h"
#include "coordinator/cli/outcome.h"

namespace longhaul::cli {

// Runs a command that needs no server. Empty: `arguments` names another command.
std::optional<Outcome> RunLocalCommand(const Arguments& arguments, const Environment& environment);

// Runs the command that `arguments` names, with a server.
Outcome RunCommand(const Arguments& arguments, Client& client, const Environment& environment);

// Needs no server.
Outcome Certs(const Arguments& arguments);
Outcome AddToken(const Arguments& arguments);

Outcome Submit(const Arguments& arguments, Client& client, const Environment& environment);
Outcome Watch(const Arguments& arguments, Client& client, const Environment& environment);
Outcome Wait(const Arguments& arguments, Client& client, const Environment& environment);
Outcome Logs(const Arguments& arguments, Client& client, const Environment& environment);
Outcome Top(const Arguments& arguments, Client& client, const Environment& environment);
// Checks what is wrong between this machine and the coordinator, and says what to do.
Outcome Doctor(const Arguments& arguments, const Environment& environment);
Outcome ListContexts(const Arguments& arguments, const Environment& environment);

}  // namespace longhaul::cli
