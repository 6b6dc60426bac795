// This file lets fork.go declare functions that the runtime defines.
