// Package httpapi is the door for programs and pages: REST and server-sent
// events over the services. Start with New.
//
// The contract is api/openapi.yaml; each tag of it is implemented in files of
// that name. Handlers read a request, ask one service and write the answer.
// They return faults, and one table (errors.go) makes statuses of them.
//
// The package must not know how things are stored, and decides nothing: who may
// do what is account.May's, called by the services.
package httpapi
