// Package sandboxes is the engine as actors get it: each sandbox has an owner,
// labels and deadlines that outlive this process, quotas hold, a retried
// request never makes or runs anything twice, and what was used is accounted
// for. Start with Open, Service and CreateRequest.
//
// It decides nothing about machines: that is package sandbox. It must not know
// HTTP, SQL or a driver.
package sandboxes
