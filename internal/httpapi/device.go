package httpapi

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"assay/api"
	"assay/internal/account"
	"assay/internal/fault"
)

// deviceGrant is what RFC 8628 calls a question for the token.
const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

func (h accountHandlers) StartDevice(ctx context.Context, r api.StartDeviceRequestObject) (api.StartDeviceResponseObject, error) {
	var ask api.DeviceStart
	switch {
	case r.JSONBody != nil:
		ask = *r.JSONBody
	case r.FormdataBody != nil:
		ask = *r.FormdataBody
	}
	var scopes []account.Scope
	for _, word := range strings.Fields(ask.Scope) {
		scopes = append(scopes, account.Scope(word))
	}
	d, err := h.people.StartDevice(ctx, ask.ClientID, scopes, visitOf(ctx).from)
	if err != nil {
		return nil, err
	}
	return api.StartDevice200JSONResponse{
		DeviceCode: d.DeviceCode, UserCode: d.UserCode, VerificationURI: h.public + "/device",
		VerificationURIComplete: h.public + "/device?user_code=" + url.QueryEscape(d.UserCode),
		ExpiresIn:               int(d.Expires.Seconds()), Interval: int(d.Interval.Seconds()),
	}, nil
}

func (h accountHandlers) TakeDeviceToken(ctx context.Context, r api.TakeDeviceTokenRequestObject) (api.TakeDeviceTokenResponseObject, error) {
	var ask api.DevicePoll
	switch {
	case r.JSONBody != nil:
		ask = *r.JSONBody
	case r.FormdataBody != nil:
		ask = *r.FormdataBody
	}
	if ask.GrantType != "" && ask.GrantType != deviceGrant {
		return nil, fault.Errorf(fault.Invalid, "grant_type is %.80q", ask.GrantType).WithHint("send %s", deviceGrant)
	}
	t, secret, err := h.people.TakeDeviceToken(ctx, ask.DeviceCode)
	for _, wait := range []struct {
		err  error
		name api.DeviceWaitError
	}{
		{account.ErrDevicePending, api.AuthorizationPending},
		{account.ErrDeviceSlowDown, api.SlowDown},
		{account.ErrDeviceDenied, api.AccessDenied},
		{account.ErrDeviceExpired, api.ExpiredToken},
	} {
		if errors.Is(err, wait.err) {
			return api.TakeDeviceToken400JSONResponse{
				Error: wait.name, ErrorDescription: err.Error(), Code: "device." + string(wait.name), Hint: fault.HintOf(err), RequestID: RequestID(ctx),
			}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	answer := api.DeviceToken{AccessToken: secret, TokenType: api.Bearer, Scope: scopeText(t.Scopes)}
	if !t.Expires.IsZero() {
		answer.ExpiresIn = int64(time.Until(t.Expires).Seconds())
	}
	return api.TakeDeviceToken200JSONResponse(answer), nil
}
