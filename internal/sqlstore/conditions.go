package sqlstore

import (
	"fmt"
	"strings"
)

// conditions are the parts of a WHERE, with their arguments. Only what is asked
// for is in the text, so that the database finds the index for it.
type conditions struct {
	parts []string
	args  []any
}

// add adds a part; each $$ in it is the next argument.
func (c *conditions) add(part string, args ...any) {
	for _, a := range args {
		part = strings.Replace(part, "$$", c.arg(a), 1)
	}
	c.parts = append(c.parts, part)
}

// is adds that a column has a value; "" is any.
func (c *conditions) is(column, value string) {
	if value != "" {
		c.add(column+" = $$", value)
	}
}

// arg gives the name of a new argument.
func (c *conditions) arg(a any) string {
	c.args = append(c.args, a)
	return fmt.Sprintf("$%d", len(c.args))
}

// end gives WHERE, ORDER BY and LIMIT; a limit of 0 is none.
func (c *conditions) end(order string, limit int) string {
	text := ""
	if len(c.parts) > 0 {
		text = " WHERE " + strings.Join(c.parts, " AND ")
	}
	text += " ORDER BY " + order
	if limit > 0 {
		text += " LIMIT " + c.arg(limit)
	}
	return text
}
