// How long a program keeps the gRPC library.
#pragma once

namespace longhaul {

// Keeps it until the process ends. By default the end of the last channel or server shuts it down,
// and this may take 10 s: gRPC joins a thread that watches for connections whose send buffer was
// full, and does not wake it. Here gRPC's threads run until the end, so the program must end by
// EndProgram (output_end.h). Call it in main or a function that main calls, before the first
// channel or server. It starts threads, so signals that they must not take are blocked before.
void KeepGrpcLibrary();

}  // namespace longhaul
