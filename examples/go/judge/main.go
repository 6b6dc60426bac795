// Command judge submits a C++ program to a problem on an Assay server and shows
// each case as it is judged:
//
//	ASSAY_URL=http://127.0.0.1:8080 ASSAY_TOKEN=asy_… go run ./examples/go/judge addition examples/problems/addition/submissions/accepted/sum.cpp
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"assay/client"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: judge PROBLEM FILE")
		os.Exit(2)
	}
	if err := judge(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
}

func judge(ctx context.Context, problem, file string) error {
	api, err := client.Connect(os.Getenv("ASSAY_URL"), os.Getenv("ASSAY_TOKEN"))
	if err != nil {
		return err
	}
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	r, err := api.SubmitWithResponse(ctx, nil, client.NewSubmission{
		Problem: problem, Files: []client.SourceFile{{Name: filepath.Base(file), Text: string(source)}},
	})
	if err != nil {
		return err
	}
	if err := client.Check(r.HTTPResponse, r.Body); err != nil {
		return err
	}
	// From here on the submission is in the server's store: whatever happens, it
	// gets a verdict, and asking again is safe.
	events, err := api.FollowSubmission(ctx, r.JSON201.ID)
	if err != nil {
		return err
	}
	defer events.Body.Close()
	for e, err := range client.Events(events.Body) {
		if err != nil {
			return err
		}
		switch e.Name {
		case "progress":
			var p struct{ Case, Cases int }
			if err := json.Unmarshal(e.Data, &p); err != nil {
				return err
			}
			fmt.Printf("case %d of %d\n", p.Case, p.Cases)
		case "submission":
			var s client.Submission
			if err := json.Unmarshal(e.Data, &s); err != nil {
				return err
			}
			if s.Run.State != client.RunStateDone {
				continue
			}
			for _, c := range s.Run.Cases {
				fmt.Printf("%4d  %-4s %8.3f s %8.1f MiB  %s\n", c.Number, c.Verdict, float64(c.TimeUs)/1e6, float64(c.MemoryBytes)/(1<<20), c.Message)
			}
			fmt.Printf("%s %s\n", s.Run.Verdict, s.Run.Reason)
		}
	}
	return nil
}
