// Package grading carries out gradings: one submission (Service.Grade), a whole
// class side by side and resumable (Service.Run), and the check of an assignment before it is published
// (Service.Verify). Start with New.
//
// It must not know modes from the inside, drivers, stores or who asks.
package grading
