// The commands. Each blocks until it is done and leaves an Outcome; what is for people on the way
// goes to environment.err.
#pragma once

#include <optional>

#include "coordinator/cli/client.h"
#include "coordinator/cli/outcome.h"

namespace longhaul::cli {

// The command that needs no server and no connection; empty: `arguments` names another.
std::optional<Outcome> RunLocalCommand(const Arguments& arguments, const Environment& environment);

// The command that needs a server which `arguments` names.
Outcome RunCommand(const Arguments& arguments, Client& client, const Environment& environment);

// Without a server.
Outcome Certs(const Arguments& arguments);

Outcome Submit(const Arguments& arguments, Client& client, const Environment& environment);
Outcome Watch(const Arguments& arguments, Client& client, const Environment& environment);
Outcome Wait(const Arguments& arguments, Client& client, const Environment& environment);
Outcome Logs(const Arguments& arguments, Client& client, const Environment& environment);
Outcome Top(const Arguments& arguments, Client& client, const Environment& environment);
// Looks for what is wrong between this machine and the coordinator; says what to do.
Outcome Doctor(const Arguments& arguments, const Environment& environment);
Outcome ListContexts(const Arguments& arguments, const Environment& environment);

}  // namespace longhaul::cli
