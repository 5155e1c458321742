// Renders a chart as `helm template` does, for those without Helm: Go's text/template with sprig and Helm's own functions
// (include, tpl, required, fail, toYaml, fromYaml, toJson). No dependencies of charts, no hooks, no lookup. Values that are not
// as values.schema.json says are refused, by the library that Helm uses.
//
//	render CHART RELEASE [VALUES.yaml ...]        manifests on standard output
//
// Exit status 4: a file of values is at fault; 1: the chart.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"github.com/xeipuuv/gojsonschema"
	"gopkg.in/yaml.v3"
)

type values = map[string]interface{}

// Numbers are float64, as in Helm, which reads YAML by way of JSON.
func readYAML(path string) (values, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var read interface{}
	if err := yaml.Unmarshal(text, &read); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if read == nil {
		return values{}, nil
	}
	asJSON, err := json.Marshal(read)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	result := values{}
	if json.Unmarshal(asJSON, &result) != nil {
		return nil, fmt.Errorf("%s: the values are not a map", path)
	}
	return result, nil
}

// A fault of the user's files, not of the chart.
type badValues struct {
	chart, what string
}

func (bad badValues) Error() string {
	return fmt.Sprintf("%s\n%s has every value and what it means", bad.what, filepath.Join(bad.chart, "values.yaml"))
}

// All faults at once. `all` are the chart's own values with those of the files.
func checkValues(chart string, all values, files []string) error {
	schema, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		return err
	}
	result, err := gojsonschema.Validate(gojsonschema.NewBytesLoader(schema), gojsonschema.NewGoLoader(all))
	if err != nil {
		return err
	}
	if result.Valid() {
		return nil
	}
	lines := []string{"the values are not as values.schema.json says (" + strings.Join(files, ", ") + "):"}
	for _, fault := range result.Errors() {
		lines = append(lines, "  "+fault.String())
	}
	return badValues{chart, strings.Join(lines, "\n")}
}

func merge(into, from values) {
	for key, value := range from {
		nested, isMap := value.(values)
		old, wasMap := into[key].(values)
		if isMap && wasMap {
			merge(old, nested)
		} else {
			into[key] = value
		}
	}
}

func toYAML(value interface{}) (string, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

func functions(all *template.Template) template.FuncMap {
	table := sprig.TxtFuncMap()
	delete(table, "env") // A chart does not see the machine.
	delete(table, "expandenv")
	table["include"] = func(name string, data interface{}) (string, error) {
		var out strings.Builder
		err := all.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	table["tpl"] = func(text string, data interface{}) (string, error) {
		part, err := template.Must(all.Clone()).New("tpl").Parse(text)
		if err != nil {
			return "", err
		}
		var out strings.Builder
		err = part.Execute(&out, data)
		return out.String(), err
	}
	table["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, errors.New(message)
		}
		return value, nil
	}
	table["fail"] = func(message string) (string, error) { return "", errors.New(message) }
	table["toYaml"] = toYAML
	table["fromYaml"] = func(text string) (values, error) {
		result := values{}
		return result, yaml.Unmarshal([]byte(text), &result)
	}
	table["toJson"] = func(value interface{}) (string, error) {
		text, err := json.Marshal(value)
		return string(text), err
	}
	return table
}

func render(chart, release string, valueFiles []string) error {
	about, err := readYAML(filepath.Join(chart, "Chart.yaml"))
	if err != nil {
		return err
	}
	all, err := readYAML(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	for _, path := range valueFiles {
		more, err := readYAML(path)
		if err != nil {
			return badValues{chart, err.Error()}
		}
		merge(all, more)
	}
	if err := checkValues(chart, all, valueFiles); err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		return err
	}
	sort.Strings(paths)
	root := template.New("chart").Option("missingkey=error")
	root.Funcs(functions(root))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, err := root.New(path).Parse(string(text)); err != nil {
			return err
		}
	}
	data := values{
		"Values":  all,
		"Release": values{"Name": release, "Namespace": "default", "Service": "Helm", "IsInstall": true, "IsUpgrade": false, "Revision": 1},
		"Chart":   values{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
	}
	for _, path := range paths {
		if strings.HasPrefix(filepath.Base(path), "_") {
			continue
		}
		var out strings.Builder
		if err := root.ExecuteTemplate(&out, path, data); err != nil {
			return err
		}
		for _, document := range strings.Split("\n"+out.String(), "\n---") {
			lines := []string{}
			for _, line := range strings.Split(document, "\n") {
				if strings.TrimSpace(line) != "" {
					lines = append(lines, strings.TrimRight(line, " "))
				}
			}
			if len(lines) > 0 {
				fmt.Printf("---\n%s\n", strings.Join(lines, "\n"))
			}
		}
	}
	return nil
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: render CHART RELEASE [VALUES.yaml ...]")
		os.Exit(4)
	}
	if err := render(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		if errors.As(err, &badValues{}) {
			os.Exit(4)
		}
		os.Exit(1)
	}
}
