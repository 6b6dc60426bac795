package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Login signs a program in by an approval in a browser (RFC 8628): show is
// called once with the link and the code to tell the user, then Login waits
// until they have answered or ctx ends. name is what the user sees on the page;
// scopes have spaces between, "" is all. A refusal is a *Failure with the code
// device.access_denied or device.expired_token.
func (c *ClientWithResponses) Login(ctx context.Context, name, scopes string, show func(DeviceCodes)) (DeviceToken, error) {
	started, err := c.StartDeviceWithResponse(ctx, DeviceStart{ClientID: name, Scope: scopes})
	if err != nil {
		return DeviceToken{}, fmt.Errorf("begin to sign in: %w", err)
	}
	if err := Check(started.HTTPResponse, started.Body); err != nil {
		return DeviceToken{}, err
	}
	if started.JSON200 == nil {
		return DeviceToken{}, &Failure{Status: started.StatusCode(), Text: "the server's answer is not that of Assay"}
	}
	show(*started.JSON200)
	wait := max(time.Duration(started.JSON200.Interval)*time.Second, time.Second)
	expires := time.Now().Add(time.Duration(started.JSON200.ExpiresIn) * time.Second)
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return DeviceToken{}, fmt.Errorf("wait for the approval: %w", context.Cause(ctx))
		case <-timer.C:
		}
		got, err := c.TakeDeviceTokenWithResponse(ctx, DevicePoll{DeviceCode: started.JSON200.DeviceCode, GrantType: deviceGrant})
		switch {
		case err != nil && ctx.Err() != nil:
			return DeviceToken{}, fmt.Errorf("wait for the approval: %w", context.Cause(ctx))
		case err != nil && time.Now().Add(wait).After(expires):
			return DeviceToken{}, fmt.Errorf("ask for the token: %w", err)
		case err != nil:
			// Perhaps it is being restarted: the code stays.
			wait = min(2*wait, maxWait)
		case got.JSON200 != nil:
			return *got.JSON200, nil
		case got.JSON400 != nil && got.JSON400.Error == AuthorizationPending:
		case got.JSON400 != nil && got.JSON400.Error == SlowDown:
			wait += slowDown
		case got.JSON400 != nil && got.JSON400.Code != "":
			w := got.JSON400
			return DeviceToken{}, &Failure{Status: http.StatusBadRequest, Code: w.Code, Text: w.ErrorDescription, Hint: w.Hint, RequestID: w.RequestID}
		default:
			var f *Failure
			if !errors.As(Check(got.HTTPResponse, got.Body), &f) {
				return DeviceToken{}, &Failure{Status: got.StatusCode(), Text: "the server's answer is not that of Assay"}
			}
			// A server that is being restarted, or has no time: the code stays.
			if f.Status < http.StatusInternalServerError && f.Status != http.StatusTooManyRequests {
				return DeviceToken{}, f
			}
			wait = max(wait, f.After)
		}
	}
}

const (
	deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"
	// slowDown is what RFC 8628 adds to the wait of who asks too soon.
	slowDown = 5 * time.Second
	// maxWait bounds the wait for a server that does not answer.
	maxWait = 20 * time.Second
)
