// Command class grades a class of 30 in parallel on an Assay server: it makes a
// course with a roster, uploads an assignment and opens it when the server has
// checked it, hands in for everybody at once, and prints the marks:
//
//	ASSAY_URL=http://127.0.0.1:8080 ASSAY_TOKEN=asy_… go run ./examples/go/class thirty examples/assignments/shopping-cart
//
// The token is that of staff with the scope class.
package main

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"assay/client"
)

// students is how many hand in.
const students = 30

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: class COURSE ASSIGNMENT_FOLDER")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "class:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, course, folder string) error {
	api, err := client.Connect(os.Getenv("ASSAY_URL"), os.Getenv("ASSAY_TOKEN"))
	if err != nil {
		return err
	}
	assignment := filepath.Base(folder)
	if err := prepare(ctx, api, course, assignment, folder); err != nil {
		return err
	}
	// Half hand in the solution, half the starter code.
	var works [2][]client.CourseFile
	for i, part := range []string{"solution", "starter"} {
		if works[i], err = filesIn(filepath.Join(folder, part)); err != nil {
			return err
		}
	}
	begun := time.Now()
	var all sync.WaitGroup
	failed := make([]error, students)
	for i := range students {
		all.Go(func() { failed[i] = handIn(ctx, api, course, assignment, person(i), works[i%2]) })
	}
	all.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	fmt.Printf("%d graded in %v\n", students, time.Since(begun).Round(time.Second/10))
	return nil
}

func person(i int) string { return fmt.Sprintf("student-%02d", i+1) }

// prepare makes the course, imports the roster as it was previewed, and opens the
// assignment.
func prepare(ctx context.Context, api *client.ClientWithResponses, course, assignment, folder string) error {
	made, err := api.CreateCourseWithResponse(ctx, client.NewCourse{ID: course, Title: "A class of 30", Zone: "UTC"})
	if err != nil {
		return err
	}
	if err := client.Check(made.HTTPResponse, made.Body); err != nil {
		return err
	}
	roster := "student id,name,role\n"
	for i := range students {
		roster += fmt.Sprintf("%[1]s,%[1]s,student\n", person(i))
	}
	plan, err := api.PreviewRosterWithBodyWithResponse(ctx, course, "text/csv", bytes.NewBufferString(roster))
	if err != nil {
		return err
	}
	if err := client.Check(plan.HTTPResponse, plan.Body); err != nil {
		return err
	}
	done, err := api.ImportRosterWithBodyWithResponse(ctx, course, &client.ImportRosterParams{Plan: plan.JSON200.Digest}, "text/csv", bytes.NewBufferString(roster))
	if err != nil {
		return err
	}
	if err := client.Check(done.HTTPResponse, done.Body); err != nil {
		return err
	}
	archive, err := zipOf(folder)
	if err != nil {
		return err
	}
	up, err := api.UploadAssignmentWithBodyWithResponse(ctx, course, assignment, "application/zip", bytes.NewReader(archive))
	if err != nil {
		return err
	}
	if err := client.Check(up.HTTPResponse, up.Body); err != nil {
		return err
	}
	for {
		// The server grades the solution, the starter code and hostile submissions
		// first: until then nobody can open it.
		opened, err := api.OpenAssignmentVersionWithResponse(ctx, course, assignment, up.JSON201.Number, client.AssignmentOpening{})
		if err != nil {
			return err
		}
		if opened.StatusCode() != http.StatusConflict {
			return client.Check(opened.HTTPResponse, opened.Body)
		}
		time.Sleep(time.Second)
	}
}

// handIn hands in for one person and waits for the grade.
func handIn(ctx context.Context, api *client.ClientWithResponses, course, assignment, who string, files []client.CourseFile) error {
	r, err := api.HandInWithResponse(ctx, course, assignment, &client.HandInParams{IdempotencyKey: course + " " + who}, client.NewAttempt{Files: files, For: who})
	if err != nil {
		return err
	}
	if err := client.Check(r.HTTPResponse, r.Body); err != nil {
		return err
	}
	for {
		a, err := api.GetAttemptWithResponse(ctx, course, r.JSON201.ID, &client.GetAttemptParams{WaitSeconds: 30})
		if err != nil {
			return err
		}
		if err := client.Check(a.HTTPResponse, a.Body); err != nil {
			return err
		}
		if g := a.JSON200.Grade; a.JSON200.Graded && g != nil && g.Score != nil && g.Points != nil {
			fmt.Printf("%s  %g of %g\n", who, *g.Score, *g.Points)
			return nil
		}
	}
}

func filesIn(dir string) (files []client.CourseFile, err error) {
	err = walk(dir, func(name string, data []byte) error {
		files = append(files, client.CourseFile{Name: name, Text: string(data)})
		return nil
	})
	return files, err
}

func zipOf(dir string) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	err := walk(dir, func(name string, data []byte) error {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	})
	if err == nil {
		err = z.Close()
	}
	return b.Bytes(), err
}

func walk(dir string, each func(name string, data []byte) error) error {
	return fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		return each(name, data)
	})
}
